// The model of accounts against the product: node tests/accounts/main.ts [--seed N] [--sequences N]
import '../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { connectTestRedis } from '../helpers/world.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../runner/servers.ts';
import { compareAccounts } from './compare-accounts.ts';
import { compareLimits } from './compare-limits.ts';
import { SHARD } from './test-shard.ts';

/** The most steps of a sequence: on average they have half of them. */
const MOST = 100;
const ofScripts = {
  'grants, holds and alerts': compareAccounts,
  'limits over windows': compareLimits,
};

const text = { type: 'string' } as const;
const { values } = parseArgs({ options: { seed: text, sequences: text } });
const sequences = Number(values.sequences || 2_000);
const seed = values.seed ? Number(values.seed) : Math.floor(Math.random() * 1e9);
await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (!(Number.isInteger(sequences) && sequences > 0 && Number.isInteger(seed)))
    throw new StackError('usage: main.ts [--seed N] [--sequences N]');
  const { servers } = await startTestServers(folder, console.log);
  console.log(`seed ${seed}`);
  Object.assign(process.env, testEnvironment(servers, folder, 1));
  const redis = await connectTestRedis();
  try {
    for (const [name, compare] of Object.entries(ofScripts)) {
      const difference = await compare(redis.node(SHARD).client, { sequences, seed, most: MOST });
      console.log(`${name}: ${sequences} sequences, ${difference === undefined ? '0 differences' : '1 DIFFERENCE'}`);
      if (difference === undefined) continue;
      console.error(`${difference}\n\nAgain: make accounts-model SEED=${seed} SEQUENCES=${sequences}\n`);
      process.exitCode = 1;
    }
  } finally {
    await redis.close();
  }
}
