// Puts faults into a copy of the product, one at a time, and sees whether a test notices: make mutants [ONLY=…] [DAY=28]
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { checkout } from '../../apps/stack/process/home.ts';
import { StackError } from '../../apps/stack/process/errors.ts';
import { runInTestFolder, slotEnvironment, startTestServers, testEnvironment } from '../runner/servers.ts';
import { makeWorker } from '../runner/test-file.ts';
import { tierNames, tierOf } from '../runner/tiers.ts';
import { mutants } from './list.ts';
import { noticer, type Mutant } from './mutant.ts';

const A_DAY = 6;
const JOBS = 2;
const WITHIN_MS = 120_000;

const { values } = parseArgs({
  options: { only: { type: 'string', default: '' }, day: { type: 'string', default: '' } },
});

await runInTestFolder(async (folder) => {
  const chosen = choose(mutants, values);
  for (const mutant of chosen) checkPlace(mutant);
  const files = [...new Set(chosen.map(noticer))];
  const needsServers = files.some((file) => tierOf(file) > 0);
  const servers = needsServers ? (await startTestServers(folder, console.log)).servers : undefined;
  let slot = 10;
  let problems = 0;

  /** Runs a test file in a copy of the tree; gives why it failed. */
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
    const { name, file, from, to } = mutant;
    const seenBy = noticer(mutant);
    const place = join(root, file);
    const text = readFileSync(place, 'utf8');
    writeFileSync(
      place,
      text.replace(from, () => to),
    );
    const problem = await run(root, index, seenBy);
    writeFileSync(place, text);
    const tier = tierNames[tierOf(seenBy)];
    say(problem !== undefined, began, `${problem ? `noticed (${tier})` : `SURVIVED ${seenBy}`}: ${name}`);
  });
  console.log(`\n${files.length + chosen.length - problems} passed, ${problems} failed`);
  if (problems > 0) process.exitCode = 1;
});

/** All of them; those whose name or file has a text in it; or the six of a day of the month. */
function choose(all: Mutant[], { only, day }: { only: string; day: string }): Mutant[] {
  const named = all.filter(({ name, file }) => `${name} ${file}`.includes(only));
  if (named.length === 0) throw new StackError(`there is no fault like ${only}`);
  if (day === '') return named;
  return Array.from(
    { length: Math.min(A_DAY, named.length) },
    (_, i) => named[(Number(day) * A_DAY + i) % named.length]!,
  );
}

function checkPlace({ name, file, from, to }: Mutant): void {
  const times = readFileSync(join(checkout, file), 'utf8').split(from).length - 1;
  if (times !== 1 || from === to) throw new StackError(`"${name}": its text stands in ${file} ${times} times`);
}

// A run that is cut off must leave no fault in the checkout.
function copyTree(root: string): string {
  const listed = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], {
    cwd: checkout,
    encoding: 'utf8',
  });
  for (const path of listed.split('\0').filter(Boolean)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    cpSync(join(checkout, path), join(root, path));
  }
  symlinkSync(join(checkout, 'node_modules'), join(root, 'node_modules'));
  return root;
}
