import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorker, type Worker } from './simulate.ts';

const SEEDS = Array.from({ length: 40 }, (_, i) => i + 1);
const STEPS = Array.from({ length: 200 }, (_, step) => step);
let worker: Worker;
test.before(() => {
  worker = makeWorker(process.env);
});
test.after(() => worker?.stop());

for (const seed of SEEDS) {
  test(`what is promised holds under the faults of seed ${seed}`, async () => {
    const { broken, trace } = await worker.run({ seed, steps: STEPS });
    assert.equal(broken, [], trace.slice(-40).join('\n'));
  });
}

test('a seed does the same each time', async () => {
  const plan = { seed: 7, steps: STEPS.slice(0, 60) };
  const first = await worker.run(plan);
  await worker.run({ ...plan, seed: 8 });
  const second = await worker.run(plan);
  assert.ok(first.trace.length > 40);
  assert.equal(first.trace, second.trace);
});
