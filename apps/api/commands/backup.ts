import '../../../shared/runtime/require-node.ts';
import { readFileSync } from 'node:fs';
import { takeBackup } from '../backup/take.ts';
import { progressLine, runTool } from './tool.ts';

// Writes a backup of the running stack to standard output: `make backup FILE=…`. Its last line on standard error says what
// is in it. It needs the rights of the schemas' owner in Postgres.
const PATIENCE_MS = 60_000;

await runTool('backup', async (stores) => {
  const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  const progress = progressLine();
  const taking = { ...stores, version, patienceMs: PATIENCE_MS };
  const { header, rows } = await takeBackup(taking, process.stdout, progress.show);
  progress.end();
  const events = rows['books/usage_events'] ?? 0;
  console.error(`backed up all settings of ${header.settingsAt}`);
  console.error(`and all usage from before ${header.usageBefore}: ${events.toLocaleString('en')} events`);
  return 0;
});
