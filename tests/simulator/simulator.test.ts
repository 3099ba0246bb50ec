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

// One of each kind: with plans and meters, and with Kafka.
for (const seed of [8, 7]) {
  test(`seed ${seed} does the same on each worker, whatever ran before`, async () => {
    const { trace } = await results.get(seed)!.promise;
    assert.ok(trace.length > 100);
    const again = await Promise.all(workers.map((worker) => worker.run({ seed, steps: STEPS })));
    for (const one of again) assert.equal(one.trace, trace);
  });
}

async function runAll(worker: Worker, waiting: number[]): Promise<void> {
  for (let seed = waiting.shift(); seed; seed = waiting.shift()) {
    const { promise, resolve, reject } = results.get(seed)!;
    worker.run({ seed, steps: STEPS }).then(resolve, reject);
    await promise.catch(() => {});
  }
}
