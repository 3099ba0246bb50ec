// The fault suite: node tests/faults/main.ts [--seed 7 | --seed 1-20] [--minutes 10] [--only name] [--check file]…
import '../../shared/runtime/require-node.ts';
import { parseArgs } from 'node:util';
import { casesOf } from './checks/case.ts';
import { checkCase } from './checks/check.ts';
import { faults, plan } from './breaking/faults.ts';
import { readHistory } from './history.ts';
import type { Outcome } from './play.ts';
import { playSeeds, runSuite } from './run.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: { seed: text, minutes: text, only: text, check: { type: 'string', multiple: true } },
});

await runSuite(() => (values.check ? values.check.map(checkAgain) : breakEverything()));

async function breakEverything(): Promise<Outcome[]> {
  const { seed, minutes, only = '' } = values;
  const disks = process.getuid?.() === 0 && process.platform === 'linux';
  if (!disks) console.error('****  NOT INJECTED: full disks, since only root on Linux may mount small disks');
  const wanted = faults.filter(({ name }) => name.includes(only));
  return playSeeds({ name: 'faults', seed, minutes, plan: (random) => plan(random, disks, wanted) });
}

function checkAgain(file: string): Outcome {
  const cases = casesOf(readHistory(file));
  return { cases, violations: cases.flatMap(checkCase) };
}
