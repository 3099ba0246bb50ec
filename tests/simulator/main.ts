// Simulates the whole service under faults: make simulate [SEED=1-100] [STEPS=200] [WITHOUT=losses,jumps]
import '../../shared/runtime/require-node.ts';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { runInTestFolder, startTestServers, testEnvironment } from '../runner/servers.ts';
import type { Plan, Result } from './run.ts';
import { makeWorker, type Worker } from './simulate.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: { seed: text, steps: text, without: text, jobs: text, first: { type: 'boolean', default: false } },
});
const [first = NaN, last = first] = (values.seed || '1-100').split('-').map(Number);
const count = Number(values.steps || 200);
// Each waits for servers: one more of them keeps all cores busy.
const jobs = Number(values.jobs || availableParallelism() + 1);
const without = (values.without ?? '').split(',').filter(Boolean) as NonNullable<Plan['without']>;
const MOST_TRIES = 80;
const LAST_LINES = 60;

await runInTestFolder(main);

async function main(folder: string): Promise<void> {
  if (![first, last, count, jobs].every((value) => Number.isInteger(value) && value > 0))
    throw new StackError('usage: main.ts [--seed 1-100] [--steps N] [--without faults] [--jobs N] [--first]');
  const { servers } = await startTestServers(folder, console.log);
  const began = performance.now();
  let next = first;
  let done = 0;
  let broken = 0;

  async function work(index: number): Promise<void> {
    const worker = makeWorker({ ...process.env, ...testEnvironment(servers, folder, index + 1) });
    while (next <= last && !(values.first && broken > 0)) {
      const seed = next++;
      const plan: Plan = { seed, steps: Array.from({ length: count }, (_, step) => step), without };
      const result = await worker.run(plan);
      done += 1;
      if (result.broken.length > 0) {
        broken += 1;
        console.log(`seed ${seed}: ${result.broken.join('\n  ')}`);
        if (!values.first) await show(worker, plan, kindOf(result));
      } else if (done % 20 === 0) console.log(`${done} seeds, ${broken} broken, ${seconds(began)}`);
    }
    await worker.stop();
  }

  await Promise.all(Array.from({ length: Math.min(jobs, last - first + 1) }, (_, index) => work(index)));
  console.log(`${done} seeds of ${count} steps, ${broken} broken, ${seconds(began)}`);
  if (broken > 0) process.exitCode = 1;
}

/** Finds fewer steps that break a promise too, and prints what they do. */
async function show(worker: Worker, plan: Plan, kind: string): Promise<void> {
  let steps = plan.steps;
  let shown: Result | undefined;
  let tries = 0;
  for (let size = steps.length / 2; size >= 1 && tries < MOST_TRIES; size /= 2) {
    for (let from = 0; from < steps.length && tries < MOST_TRIES; tries++) {
      const length = Math.ceil(size);
      const fewer = [...steps.slice(0, from), ...steps.slice(from + length)];
      const result = await worker.run({ ...plan, steps: fewer });
      if (kindOf(result) === kind) [steps, shown] = [fewer, result];
      else from += length;
    }
  }
  shown ??= await worker.run(plan);
  console.log(`  ${steps.length} of its steps are enough: ${steps.join(' ')}`);
  for (const line of shown.trace.slice(-LAST_LINES)) console.log(`  ${line.slice(0, 200)}`);
}

/** What was broken, without its numbers and ids. */
function kindOf({ broken: [what = ''] }: Result): string {
  return what.replace(/\w*\d\w*/g, '').slice(0, 30);
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}
