import * as fc from 'fast-check';
import { test } from 'uvu';
import { connectTestRedis } from '../helpers/world.ts';
import { sequences, type Command } from './commands.ts';
import { limitsHold } from './compare-limits.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { Record } from './record.ts';
import { SHARD } from './test-shard.ts';

// The scripts of the product, on a real Redis, against the models of accounts and of limits, in random sequences. `make accounts-model`
// tries more and longer ones.

const { ACCOUNTS_SEED = '', ACCOUNTS_SEQUENCES = '' } = process.env;
const runs = {
  seed: Number(ACCOUNTS_SEED || 1),
  numRuns: Number(ACCOUNTS_SEQUENCES || 160),
  includeErrorInReport: true,
};
const most = ACCOUNTS_SEED === '' ? 50 : 100;

const { client } = (await connectTestRedis()).node(SHARD);
await loadScripts(client);

type Sequence = { total: bigint; used: bigint; commands: Command[] };

test('the scripts decide as the model does, and their numbered lines tell every amount and what they do to each class', async () => {
  // A record is a plain one first.
  const sequence = fc.record({ total: fc.bigInt(0n, 9n), used: fc.bigInt(0n, 12n), commands: sequences(most) });
  const agrees = async ({ total, used, commands }: Sequence) => {
    const product = recordOfProduct(client);
    const record = new Record(product);
    try {
      await record.startPlain(total, used);
      for (const [i, command] of commands.entries()) await record.do(command, i % 2 === 0);
    } finally {
      await product.remove();
    }
  };
  await fc.assert(fc.asyncProperty(sequence, agrees), runs);
});

test('they let through what the limits of the model let through, and tell what is left, of all windows at any instant, whatever becomes of holds', async () => {
  await fc.assert(limitsHold(client, most), runs);
});
