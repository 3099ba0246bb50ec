import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock as clock } from '../../../shared/runtime/clock.ts';
import { makeConsumerWorld } from '../helpers/consumer-world.ts';
import { makeRunner, makePlan, startJobs, type Job } from './start-jobs.ts';

const own = await makeConsumerWorld();
type Runner = ReturnType<typeof makeRunner>;

test('a job never runs twice at once, runs again after a failure, and stopping waits for it', async () => {
  const { metrics, log } = own;
  const [here, elsewhere] = [1, 2].map(() => makeRunner({ sql: own.sql, metrics, log, clock })) as [Runner, Runner];
  const other: Job = { name: 'other', cron: '', work: async () => void done.push('other') };
  const done: string[] = [];
  const job: Job = {
    name: 'test',
    cron: '',
    async work() {
      done.push('begun');
      for (const one of [here, elsewhere]) await one.run(job);
      await elsewhere.run(other);
      done.push('ended');
      if (done.length === 3) throw new Error('the first time fails');
    },
  };
  await here.run(job);
  assert.equal(done, ['begun', 'other', 'ended']);
  await elsewhere.run(job);
  assert.equal(done.slice(3), ['begun', 'other', 'ended']);
  const text = await metrics.registry.metrics();
  assert.match(text, /keytally_job_seconds_count\{(?=.*job="test").*outcome="failed".*\} 1\n/);
  assert.match(text, /keytally_job_seconds_count\{(?=.*job="test").*outcome="done".*\} 1\n/);

  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const long = here.run({
    name: 'long',
    cron: '',
    async work(signal) {
      begin();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      done.push('stopped');
    },
  });
  await begun;
  await here.stop();
  assert.is(done.at(-1), 'stopped');
  await long;
});

test('a job that has not failed yet is told as one that failed never, from the start', async () => {
  const job = { name: 'told', cron: '0 0 29 2 *', work: async () => {} };
  await startJobs([job], { ...own, clock }).stop();
  const text = await own.metrics.registry.metrics();
  assert.match(text, /keytally_job_seconds_count\{(?=.*job="told").*outcome="failed".*\} 0\n/);
});

test('a job runs at its times, once after a clock that jumped ahead, and at once after one that was set back', () => {
  let nowMs = 100_000;
  const isDue = makePlan(() => (Math.floor(nowMs / 5_000) + 1) * 5_000, nowMs);
  const looks = [101_000, 105_000, 106_000, 4_600_000, 4_601_000, 200_000, 201_000, 205_100];
  const found = looks.map((at) => isDue((nowMs = at)));
  assert.equal(found, [false, true, false, true, false, true, false, true]);
});
