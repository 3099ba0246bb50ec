// Puts faults into a copy of the product, one at a time, and sees whether a test notices: make mutants [ONLY=…] [DAY=28]
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { runInTestFolder, slotEnvironment, startTestServers, testEnvironment } from '../runner/servers.ts';
import { makeWorker } from '../runner/test-file.ts';
import { tierNames, tierOf } from '../runner/tiers.ts';
import { checkPlace, copyTree, putIn } from './copy.ts';
import { mutants, type Mutant } from './list.ts';

const A_DAY = 6;
const JOBS = 2;
const WITHIN_MS = 120_000;

const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, day: { type: 'string', default: '' } },
});

await runInTestFolder(async (folder) => {
  const chosen = choose(mutants, values);
  for (const mutant of chosen) checkPlace(mutant.name, mutant);
  const files = [...new Set(chosen.map(({ seenBy }) => seenBy))];
  const needsServers = files.some((file) => tierOf(file) > 0);
  const servers = needsServers ? (await startTestServers(folder, console.log)).servers : undefined;
  let slot = 10;
  let problems = 0;

  async function run(root: string, index: number, file: string): Promise<string | undefined> {
    slot += 1;
    const worker = makeWorker({ ...process.env, TEST_WORKER: String(index), LOG_LEVEL: 'error' }, root);
    const env = servers ? testEnvironment(servers, folder, slot) : slotEnvironment(folder, slot);
    const { problem } = await worker.run({ file, env }, WITHIN_MS);
    await worker.stop();
    return problem;
  }
  function say(ok: boolean, began: number, line: string): void {
    if (!ok) problems += 1;
    console.log(`${ok ? 'ok  ' : 'FAIL'}  ${line}  ${((performance.now() - began) / 1000).toFixed(1)} s`);
  }

  const roots = Array.from({ length: JOBS }, (_, index) => copyTree(join(folder, `tree-${index}`)));
  async function share<T>(items: T[], work: (item: T, root: string, index: number) => Promise<void>): Promise<void> {
    const queue = [...items];
    await Promise.all(
      roots.map(async (root, index) => {
        for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item, root, index);
      }),
    );
  }

  console.log(`${chosen.length} of ${mutants.length} faults; first their ${files.length} test files as they are`);
  await share(files, async (file, root, index) => {
    const began = performance.now();
    const problem = await run(root, index, file);
    say(!problem, began, `${file}${problem ? ` ${problem}` : ''}`);
  });
  await share(chosen, async (mutant, root, index) => {
    const began = performance.now();
    const { seenBy } = mutant;
    const takeOut = putIn(root, mutant);
    const problem = await run(root, index, seenBy);
    takeOut();
    const tier = tierNames[tierOf(seenBy)];
    say(problem !== undefined, began, `${problem ? `noticed (${tier})` : `SURVIVED ${seenBy}`}: ${mutant.name}`);
  });
  console.log(`\n${files.length + chosen.length - problems} passed, ${problems} failed`);
  if (problems > 0) process.exitCode = 1;
});

/** All of them; those whose name, file or test has a text in it; or the six of a day of the month. */
function choose(all: Mutant[], { only, day }: { only: string; day: string }): Mutant[] {
  const named = all.filter(({ name, file, seenBy }) => `${name} ${file} ${seenBy}`.includes(only));
  if (named.length === 0) throw new StackError(`there is no fault like ${only}`);
  if (day === '') return named;
  return Array.from(
    { length: Math.min(A_DAY, named.length) },
    (_, i) => named[(Number(day) * A_DAY + i) % named.length]!,
  );
}
