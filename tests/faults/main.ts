// The fault suite: node tests/faults/main.ts [--seed 7 | --seed 1-20] [--minutes 10] [--only name] [--check file]…
import '../../shared/runtime/require-node.ts';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { describeFailure, StackError } from '../../apps/stack/process/errors.ts';
import { checkout } from '../../apps/stack/process/home.ts';
import { makeTestFolder, removeTestFolder } from '../runner/servers.ts';
import { casesOf } from './checks/case.ts';
import { checkCase } from './checks/check.ts';
import { hadTime } from './checks/time.ts';
import { faults, plan } from './breaking/faults.ts';
import { readHistory } from './history.ts';
import { play, type Outcome } from './play.ts';
import { makeRandom } from '../helpers/random.ts';
import type { Stage } from './stage.ts';
import { table } from './table.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: { seed: text, minutes: text, only: text, check: { type: 'string', multiple: true } },
});

try {
  const outcomes = values.check ? values.check.map(checkAgain) : await playSeeds();
  report(outcomes);
} catch (error) {
  console.error(error instanceof StackError ? error.message : ((error as Error).stack ?? describeFailure(error)));
  process.exitCode = 1;
}
process.exit();

async function playSeeds(): Promise<Outcome[]> {
  const seeds = seedsOf(values.seed || String(Math.floor(Math.random() * 1e6)));
  const disks = process.getuid?.() === 0 && process.platform === 'linux';
  if (!disks) console.error('****  NOT INJECTED: full disks, since only root on Linux may mount small disks');
  const wanted = faults.filter(({ name }) => name.includes(values.only ?? ''));
  const forMs = Number(values.minutes || 0) * 60_000;
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
      // Without a time, every fault is made once. With a time, the faults are made in the order of the seed, again and again.
      const until = forMs > 0 ? performance.now() + forMs : Infinity;
      for (let round = 0; round === 0 || (forMs > 0 && performance.now() < until); round++) {
        const name = `seed-${seed}${round > 0 ? `-${round}` : ''}`;
        const kept = join(resolve(checkout, process.env.KEYTALLY_HOME || '.keytally'), 'faults', name);
        const random = makeRandom(seed, round > 0 ? String(round) : '');
        console.log(`\nseed ${seed}${round > 0 ? `, round ${round}` : ''}: ${join(kept, 'history.jsonl')}`);
        const acts = plan(random, disks, wanted);
        const opened = (one: Stage) => (stage = one);
        const place = { folder: join(folder, name), kept };
        outcomes.push(await play({ acts, seed, random, ...place, until, say: console.log, opened }));
      }
    }
  } finally {
    await removeTestFolder(folder);
  }
  return outcomes;
}

function checkAgain(file: string): Outcome {
  const cases = casesOf(readHistory(file));
  return { cases, violations: cases.flatMap(checkCase) };
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
