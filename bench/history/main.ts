// Measures what a long history and many records behind cost, on servers of its own:
// node bench/history/main.ts [--events N] [--records N]
import '../../shared/runtime/require-node.ts';
import { statfsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { bar } from '../../apps/stack/demo/print.ts';
import { StackError } from '../../apps/stack/process/errors.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../../tests/runner/servers.ts';
import { report } from './report.ts';
import { measureHistory } from './run.ts';

const DAYS = 100;
const LEAST_EVENTS = 100_000;
const LEAST_RECORDS = 100;
/** An operation is given up after so many times its limit. */
const PATIENCE = 6;
// Measured: 42 bytes an event, and as much again while parts are merged.
const BYTES_PER_EVENT = 100;

const { values } = parseArgs({
  options: { events: { type: 'string', default: '100000000' }, records: { type: 'string', default: '100000' } },
});
const [events, records] = [Number(values.events), Number(values.records)];
let shown = 0;
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(events >= LEAST_EVENTS && records >= LEAST_RECORDS))
    throw new StackError('usage: main.ts [--events N, 100000 or more] [--records N, 100 or more]');
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < events * BYTES_PER_EVENT)
    throw new StackError(`${folder} has too little room: ${Math.ceil((events * BYTES_PER_EVENT) / 1e9)} GB are needed`);
  console.log(`one record with ${whole(events)} events, ${whole(records)} records behind; starting servers`);
  const { servers } = await startTestServers(folder, console.log);
  // A Redis of its own keeps its data there too, so that all of it is removed with the folder.
  Object.assign(process.env, testEnvironment(servers, folder, 1), { TMPDIR: folder });
  const measured = await measureHistory({
    events,
    records,
    days: DAYS,
    patience: PATIENCE,
    say: console.log,
    told: showProgress,
  });
  const { text, missed } = report(measured);
  console.log(`\n${text}\n`);
  if (missed.length > 0) {
    for (const line of missed) console.error(`MISSED  ${line}`);
    process.exitCode = 1;
  }
}

/** Shows progress: in one line on a terminal, else in a line for each tenth. */
function showProgress(what: string, done: number, all: number): void {
  const line = `  ${what.padEnd(10)} ${bar(done / all, 30)} ${whole(done)} / ${whole(all)}`;
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}${done >= all ? '\n' : ''}`);
  else if (Math.floor((10 * done) / all) !== shown) console.log(line);
  shown = Math.floor((10 * done) / all);
}

function whole(value: number): string {
  return value.toLocaleString('en');
}
