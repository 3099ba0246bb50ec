import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Result } from './run.ts';
import { makeWorker, type Worker } from './simulate.ts';

const SEEDS = Array.from({ length: 50 }, (_, i) => i + 1);
const STEPS = Array.from({ length: 200 }, (_, step) => step);
const results = new Map(SEEDS.map((seed) => [seed, Promise.withResolvers<Result>()]));
let workers: [Worker, Worker];
test.before(() => {
  const slot = process.env.TEST_SLOT;
  workers = [makeWorker(process.env), makeWorker({ ...process.env, TEST_SLOT: `${slot}b` })];
  const waiting = [...SEEDS];
  for (const worker of workers) void runAll(worker, waiting);
});
test.after(async () => void (await Promise.all(workers.map((worker) => worker.stop()))));

for (const seed of SEEDS) {
  test(`what is promised holds under the faults of seed ${seed}`, async () => {
    const { broken, trace } = await results.get(seed)!.promise;
    assert.equal(broken, [], trace.slice(-40).join('\n'));
  });
}

test('a seed does the same each time', async () => {
  const [worker] = workers;
  const plan = { seed: 7, steps: STEPS.slice(0, 60) };
  const first = await worker.run(plan);
  await worker.run({ ...plan, seed: 8 });
  const second = await worker.run(plan);
  assert.ok(first.trace.length > 40);
  assert.equal(first.trace, second.trace);
});

async function runAll(worker: Worker, waiting: number[]): Promise<void> {
  for (let seed = waiting.shift(); seed; seed = waiting.shift()) {
    const { promise, resolve, reject } = results.get(seed)!;
    worker.run({ seed, steps: STEPS }).then(resolve, reject);
    await promise.catch(() => {});
  }
}
