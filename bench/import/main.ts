// Measures how fast keys of three foreign forms are imported, on servers of its own:
// node bench/import/main.ts [--keys N] [--at-once N]
import '../../shared/runtime/require-node.ts';
import { mkdirSync, statfsSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { table } from '../../apps/stack/demo/print.ts';
import { StackError } from '../../apps/stack/process/errors.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../../tests/runner/servers.ts';
import { whole } from '../results.ts';
import { measureImport, type Measured, type Run } from './measure.ts';

const WITHIN_SECONDS = 600;
const WITHIN_KEYS = 1_000_000;
const BYTES_PER_KEY = 6_000;

const { values } = parseArgs({
  options: { keys: { type: 'string', default: '1000000' }, 'at-once': { type: 'string', default: '4' } },
});
const [keys, atOnce] = [Number(values.keys), Number(values['at-once'])];
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(keys >= 300 && atOnce >= 1 && atOnce <= 5))
    throw new StackError('usage: bench/import/main.ts [--keys N, 300 or more] [--at-once N, 1 to 5]');
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < keys * BYTES_PER_KEY)
    throw new StackError(`${folder} has too little room: ${Math.ceil((keys * BYTES_PER_KEY) / 1e9)} GB are needed`);
  console.log(`${whole(keys)} keys of three foreign forms; starting servers`);
  const { servers } = await startTestServers(folder, console.log, { throwAway: false });
  Object.assign(process.env, testEnvironment(servers, folder, 1));
  const own = process.env.TEST_FOLDER!;
  mkdirSync(own, { recursive: true });
  const measured = await measureImport({ keys, atOnce, folder: own, say: console.log });
  print(measured);
}

function print({ files, apiPeakMb, postgresMb, redisMb, wrong }: Measured): void {
  const all = {
    name: 'all',
    keys,
    first: sum(files.map(({ first }) => first)),
    second: sum(files.map((one) => one.second)),
  };
  const rows = [...files, all].map(({ name, keys, first, second }) => [
    name,
    whole(keys),
    `${first.seconds.toFixed(1)} s`,
    whole(keys / first.seconds),
    `${whole((1e6 * first.commandCpu) / keys)} µs`,
    `${whole((1e6 * first.apiCpu) / keys)} µs`,
    `${whole(first.peakMb)} MB`,
    `${second.seconds.toFixed(1)} s`,
    whole(keys / second.seconds),
  ]);
  const headings = [
    'file',
    '>keys',
    '>time',
    '>keys/s',
    '>command CPU',
    '>api CPU',
    '>command peak',
    '>again',
    '>keys/s',
  ];
  console.log(`\n${table(headings, rows)}\n`);
  console.log(`peak of the api: ${whole(apiPeakMb)} MB`);
  console.log(`Postgres: ${whole(postgresMb)} MB more, ${whole((1e6 * postgresMb) / keys)} bytes a key`);
  console.log(`Redis: ${whole(redisMb)} MB more, ${whole((1e6 * redisMb) / keys)} bytes a key`);
  const limit = (WITHIN_SECONDS * keys) / WITHIN_KEYS;
  if (keys >= WITHIN_KEYS && all.first.seconds > limit) wrong.push(`it took more than ${limit} s`);
  for (const line of wrong) console.error(`WRONG  ${line}`);
  if (wrong.length > 0) process.exitCode = 1;
}

function sum(runs: Run[]): Run {
  const total = (of: (run: Run) => number) => runs.reduce((sum, run) => sum + of(run), 0);
  return {
    seconds: total(({ seconds }) => seconds),
    peakMb: Math.max(...runs.map(({ peakMb }) => peakMb)),
    commandCpu: total(({ commandCpu }) => commandCpu),
    apiCpu: total(({ apiCpu }) => apiCpu),
  };
}
