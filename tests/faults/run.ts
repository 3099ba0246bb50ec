import { join, resolve } from 'node:path';
import { describeFailure, StackError } from '../../apps/stack/process/errors.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { makeRandom, type Random } from '../helpers/random.ts';
import { makeTestFolder, removeTestFolder } from '../runner/servers.ts';
import type { Act } from './breaking/faults.ts';
import { hadTime } from './checks/time.ts';
import { play, type Outcome } from './play.ts';
import type { Stage } from './stage.ts';
import { table } from './table.ts';

type Options = {
  /** Where histories are kept, below the home of the stack. */
  name: string;
  /** A number or a range; by default any. */
  seed: string | undefined;
  minutes: string | undefined;
  plan(random: Random): Act[];
};

/** Runs a suite to its end: prints what came out, and sets the exit code. */
export async function runSuite(suite: () => Outcome[] | Promise<Outcome[]>): Promise<never> {
  try {
    report(await suite());
  } catch (error) {
    console.error(error instanceof StackError ? error.message : ((error as Error).stack ?? describeFailure(error)));
    process.exitCode = 1;
  }
  process.exit();
}

/** Plays what is planned for each seed. Without a time, once; with a time, again and again in the order of the seed. */
export async function playSeeds({ name, seed: text, minutes, plan }: Options): Promise<Outcome[]> {
  const seeds = seedsOf(text || String(Math.floor(Math.random() * 1e6)));
  const forMs = Number(minutes || 0) * 60_000;
  const outcomes: Outcome[] = [];
  const folder = await makeTestFolder();
  let stage: Stage | undefined;
  const cutOff = async () => {
    await stage?.stop();
    await removeTestFolder(folder);
    process.exit(1);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void cutOff());
  try {
    for (const seed of seeds) {
      const until = forMs > 0 ? performance.now() + forMs : Infinity;
      for (let round = 0; round === 0 || (forMs > 0 && performance.now() < until); round++) {
        const run = `seed-${seed}${round > 0 ? `-${round}` : ''}`;
        const kept = join(resolve(checkout, process.env.KEYTALLY_HOME || '.keytally'), name, run);
        const random = makeRandom(seed, round > 0 ? String(round) : '');
        console.log(`\nseed ${seed}${round > 0 ? `, round ${round}` : ''}: ${join(kept, 'history.jsonl')}`);
        const acts = plan(random);
        const opened = (one: Stage) => (stage = one);
        const place = { folder: join(folder, run), kept };
        outcomes.push(await play({ acts, seed, random, ...place, until, say: console.log, opened }));
      }
    }
  } finally {
    await removeTestFolder(folder);
  }
  return outcomes;
}

function report(outcomes: Outcome[]): void {
  const cases = outcomes.flatMap((one) => one.cases);
  const violations = outcomes.flatMap((one) => one.violations);
  console.log(`\n${table(cases, violations)}\n`);
  const busy = cases.filter((one) => !hadTime(one)).length;
  if (busy > 0)
    console.log(`****  DEADLINES NOT JUDGED in ${busy} of ${cases.length} phases: the machine was too busy\n`);
  for (const [i, one] of outcomes.entries()) {
    for (const { phase, fault, rule, text } of one.violations.slice(0, 50))
      console.log(`VIOLATION  run ${i + 1}, phase ${phase}, ${fault}: ${rule}: ${text}`);
  }
  if (violations.length > 0) process.exitCode = 1;
}

function seedsOf(text: string): number[] {
  const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  if (first === undefined) throw new StackError(`SEED must be a number or a range such as 1-20`);
  return Array.from({ length: Number(last) - Number(first) + 1 }, (_, i) => Number(first) + i);
}
