import * as fc from 'fast-check';
import type { Redis } from 'ioredis';
import { sequences, type Command } from './commands.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { Record } from './record.ts';

// What keeps accounts, on a real Redis, against the model. A record is a plain one first.

// A call of an earlier epoch can't be cancelled.
const NOT_WITH_LOSSES = ['hold', 'capture', 'release', 'extend', 'void', 'cancel'];

type Sequence = { total: bigint; used: bigint; commands: Command[] };

/** How many random sequences are tried, and by which seed; `most`: the most steps of one, by default 50. */
export type Run = { sequences: number; seed: number; most?: number };

/** Compares all that is done to an account but the loss of Redis's tail. Gives the shortest sequence that differs. */
export function compareAccounts(redis: Redis, run: Run): Promise<string | undefined> {
  return compare(redis, run, (command) => command.do !== 'tail');
}

/** Compares accounts whose Redis loses its tail now and then. */
export function compareLosses(redis: Redis, run: Run): Promise<string | undefined> {
  // What is late is drawn when it is known: of grants that end or have yet to begin that may be another one.
  const isAsked = (command: Command) =>
    !NOT_WITH_LOSSES.includes(command.do) &&
    (command.do !== 'grant' || (command.lasts === 0 && command.beginsIn === 0));
  return compare(redis, run, isAsked);
}

async function compare(redis: Redis, run: Run, isAsked: (command: Command) => boolean): Promise<string | undefined> {
  const scripts = await loadScripts(redis);
  const sequence = fc.record({
    total: fc.bigInt(0n, 9n),
    used: fc.bigInt(0n, 12n),
    commands: sequences(run.most ?? 50).map((commands) => commands.filter(isAsked)),
  });
  const doAll = async ({ total, used, commands }: Sequence) => {
    const doer = recordOfProduct(redis, scripts);
    const record = new Record(doer);
    try {
      await record.startPlain(total, used);
      for (const [i, command] of commands.entries()) await record.do(command, i % 2 === 0);
    } finally {
      await doer.remove();
    }
  };
  const { sequences: numRuns, seed } = run;
  return fc.defaultReportMessage(await fc.check(fc.asyncProperty(sequence, doAll), { numRuns, seed }));
}
