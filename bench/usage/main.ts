// Measures what usage across records and its exports cost, on servers of its own:
// node bench/usage/main.ts [--events N] [--records N] [--tries N]
import '../../shared/runtime/require-node.ts';
import { mkdirSync, statfsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { table } from '../../apps/stack/demo/print.ts';
import { StackError } from '../../apps/stack/process/errors.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../../tests/runner/servers.ts';
import { whole } from '../results.ts';
import { showProgress } from '../watch.ts';
import { measureUsage, type Measured } from './measure.ts';

const DAYS = 90;
/** The limits of time are those of so many events and records. */
const ALL_EVENTS = 20_000_000;
const ALL_RECORDS = 10_000;
const API_MB = 300;
const CLICKHOUSE_MB = 1_200;
const EXPORTED_BYTES = 1e9;
// Measured: 60 bytes an event in the tables, and twice its 130 bytes of CSV, which lie on the disk beside what is sorted.
const BYTES_PER_EVENT = 600;

const { values } = parseArgs({
  options: {
    events: { type: 'string', default: String(ALL_EVENTS) },
    records: { type: 'string', default: String(ALL_RECORDS) },
    tries: { type: 'string', default: '20' },
  },
});
const [events, records, tries] = [Number(values.events), Number(values.records), Number(values.tries)];
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(events >= 10_000 && records >= 10 && tries >= 1))
    throw new StackError('usage: main.ts [--events N, 10000 or more] [--records N, 10 or more] [--tries N]');
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < events * BYTES_PER_EVENT)
    throw new StackError(`${folder} has too little room: ${Math.ceil((events * BYTES_PER_EVENT) / 1e9)} GB are needed`);
  console.log(`${whole(events)} events of ${whole(records)} records over ${DAYS} days; starting servers`);
  const { servers } = await startTestServers(folder, console.log);
  Object.assign(process.env, testEnvironment(servers, folder, 1));
  const own = process.env.TEST_FOLDER!;
  mkdirSync(own, { recursive: true });
  const told = (done: number, all: number) => showProgress('events', done, all);
  print(await measureUsage({ events, records, days: DAYS, tries, folder: own, say: console.log, told }));
}

function print({ bytesPerEvent, asked, exported, wrong }: Measured): void {
  const isWhole = events >= ALL_EVENTS && records >= ALL_RECORDS;
  console.log(`\nan event takes ${bytesPerEvent.toFixed(0)} bytes on the disk\n`);
  const answers = asked.map(({ name, rows, bytes, p50Ms, withinMs }) => {
    const verdict = p50Ms <= withinMs ? 'reached' : 'MISSED';
    return [
      name,
      whole(rows),
      `${(bytes / 1e6).toFixed(1)} MB`,
      `${whole(p50Ms)} ms`,
      `${whole(withinMs)} ms`,
      verdict,
    ];
  });
  console.log(`${table(['question', '>rows', '>answer', '>p50', '>within', ''], answers)}\n`);
  const files = exported.map(({ format, rows, bytes, seconds, apiMb, clickhouseMb, reader }) => [
    format,
    whole(rows),
    `${whole(bytes / 1e6)} MB`,
    `${seconds.toFixed(1)} s`,
    `${whole(apiMb)} MB`,
    `${whole(clickhouseMb)} MB`,
    reader,
  ]);
  console.log(`${table(['export', '>rows', '>file', '>time', '>api peak', '>ClickHouse peak', 'read by'], files)}\n`);
  for (const { format, bytes, apiMb, clickhouseMb } of exported) {
    if (apiMb > API_MB) wrong.push(`${format}: the api took more than ${API_MB} MB`);
    if (clickhouseMb > CLICKHOUSE_MB) wrong.push(`${format}: ClickHouse took more than ${CLICKHOUSE_MB} MB`);
    if (isWhole && format === 'csv' && bytes < EXPORTED_BYTES) wrong.push('the CSV is smaller than 1 GB');
  }
  if (isWhole) for (const { name, p50Ms, withinMs } of asked) if (p50Ms > withinMs) wrong.push(`${name}: too slow`);
  for (const line of wrong) console.error(`WRONG  ${line}`);
  if (wrong.length > 0) process.exitCode = 1;
}
