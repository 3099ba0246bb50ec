import * as fc from 'fast-check';
import type { Redis } from 'ioredis';
import { sequences, type Command } from './commands.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { Record } from './record.ts';

// What keeps accounts, on a real Redis, against the model. A record is a plain one first.

type Sequence = { total: bigint; used: bigint; commands: Command[] };

/** How many random sequences are tried, and by which seed; `most`: the most steps of one, by default 50. */
export type Run = { sequences: number; seed: number; most?: number };

/** Compares all that is done to an account. Gives the shortest sequence that differs. */
export async function compareAccounts(redis: Redis, run: Run): Promise<string | undefined> {
  const scripts = await loadScripts(redis);
  const sequence = fc.record({
    total: fc.bigInt(0n, 9n),
    used: fc.bigInt(0n, 12n),
    commands: sequences(run.most ?? 50),
  });
  const doAll = async ({ total, used, commands }: Sequence) => {
    const product = recordOfProduct(redis, scripts);
    const record = new Record(product);
    try {
      await record.startPlain(total, used);
      for (const [i, command] of commands.entries()) await record.do(command, i % 2 === 0);
    } finally {
      await product.remove();
    }
  };
  return differenceIn(fc.asyncProperty(sequence, doAll), run);
}

/** The shortest sequence for which a property does not hold, with what differs. */
export async function differenceIn<Of>(property: fc.IAsyncProperty<Of>, run: Run): Promise<string | undefined> {
  const details = await fc.check(property, { numRuns: run.sequences, seed: run.seed });
  return details.failed ? `${fc.defaultReportMessage(details)}\n${String(details.errorInstance)}` : undefined;
}
