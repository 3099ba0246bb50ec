import '../../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { readConfig } from '../../../shared/runtime/config.ts';
import { programs } from '../../../shared/runtime/programs.ts';
import { groups } from '../../../shared/runtime/variables.ts';
import type { Loaded } from '../backup/archive.ts';
import { checkBackup, loadBackup, requireMasterKey } from '../backup/load.ts';
import { progressLine, runCommand, withPostgres } from './tool.ts';

// Reads a backup from standard input: `make restore FILE=…`. With --check it changes nothing, and finds whether the backup is
// whole, whether this version can load it, and whether the master key fits. Without, it loads it into empty servers. It
// prints what is in the backup as JSON.
const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
const progress = progressLine();

await runCommand('restore', async () => {
  const { header, rows } = await (values.check ? check() : load()).finally(() => progress.end());
  console.log(JSON.stringify({ usageBefore: header.usageBefore, settingsAt: header.settingsAt, rows }));
  if (values.check) return 0;
  const events = rows['books/usage_events'] ?? 0;
  console.error(`loaded all settings of ${header.settingsAt}`);
  console.error(`and all usage from before ${header.usageBefore}: ${events.toLocaleString('en')} events`);
  return 0;
});

async function check(): Promise<Loaded> {
  const { MASTER_KEY, MASTER_KEY_PREVIOUS } = readConfig(groups.masterKeys);
  const found = await checkBackup(process.stdin, progress.show);
  requireMasterKey(found.header, MASTER_KEY_PREVIOUS ? [MASTER_KEY, MASTER_KEY_PREVIOUS] : [MASTER_KEY]);
  return found;
}

async function load(): Promise<Loaded> {
  const { DATABASE_URL, CLICKHOUSE_URL: clickhouseUrl, CLICKHOUSE_CLUSTER: cluster } = readConfig(programs.migrate);
  return withPostgres(DATABASE_URL, (sql) => loadBackup({ sql, clickhouseUrl, cluster }, process.stdin, progress.show));
}
