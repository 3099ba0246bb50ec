// The model of accounts against the product: node tests/accounts/main.ts [--seed N] [--sequences N]
import '../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import type { Redis } from 'ioredis';
import { bar } from '../../apps/stack/demo/print.ts';
import { StackError } from '../../apps/stack/process/errors.ts';
import { connectTestRedis } from '../helpers/world.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../runner/servers.ts';
import { compareAccounts, compareLosses } from './compare-accounts.ts';
import { compareLimits } from './compare-limits.ts';
import type { Compared, Run } from './compare.ts';
import { SHARD } from './test-shard.ts';

/** The most steps of a sequence: on average they have half of them. */
const MOST = 100;
const ofScripts: { name: string; compare: (redis: Redis, run: Run) => Promise<Compared> }[] = [
  { name: 'grants, holds and alerts', compare: compareAccounts },
  { name: 'accounts whose Redis loses its tail', compare: compareLosses },
  { name: 'limits over windows', compare: compareLimits },
];

const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { seed: text, sequences: text } });
const sequences = Number(values.sequences || 2_000);
const seed = values.seed ? Number(values.seed) : Math.floor(Math.random() * 1e9);
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(Number.isInteger(sequences) && sequences > 0 && Number.isInteger(seed)))
    throw new StackError('usage: main.ts [--seed N] [--sequences N]');
  const { servers } = await startTestServers(folder, console.log);
  console.log(`seed ${seed}\n`);
  Object.assign(process.env, testEnvironment(servers, folder, 1));
  const redis = await connectTestRedis();
  try {
    const { client } = redis.node(SHARD);
    for (const { name, compare } of ofScripts) await report(name, sequences, (run) => compare(client, run));
  } finally {
    await redis.close();
  }
}

/** Does one part, and says what differed. */
async function report(name: string, wanted: number, compare: (run: Run) => Promise<Compared>): Promise<void> {
  const began = performance.now();
  let done = 0;
  const onSequence = () => showProgress(name, ++done, wanted);
  const { sequences: all, steps, failure } = await compare({ sequences: wanted, most: MOST, seed, onSequence });
  const took = ((performance.now() - began) / 1_000).toFixed(0);
  const differences = failure === undefined ? '0 differences' : '1 DIFFERENCE';
  console.log(`${name.padEnd(36)} ${whole(all)} sequences, ${whole(steps)} steps, ${took} s: ${differences}`);
  if (failure === undefined) return;
  console.error(
    `\nDIFFERENCE  ${name}\n${failure}\n\nAgain: make accounts-model SEED=${seed} SEQUENCES=${sequences}\n`,
  );
  process.exitCode = 1;
}

/** Shows progress: in one line on a terminal, else in a line for each tenth. */
function showProgress(name: string, done: number, all: number): void {
  // Those that make a failure shorter come beside.
  if (done > all) return;
  const line = `  ${name.padEnd(36)} ${bar(done / all, 20)} ${whole(done)} / ${whole(all)}`;
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}${done === all ? '\n' : ''}`);
  else if (Math.floor((10 * done) / all) !== Math.floor((10 * (done - 1)) / all)) console.log(line);
}

function whole(value: number): string {
  return value.toLocaleString('en');
}
