import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock as clock } from '../../../shared/runtime/clock.ts';
import { makeConsumerWorld } from '../helpers/consumer-world.ts';
import { makeRunner, watchForSetBack, type Job } from './start-jobs.ts';

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

test('a clock that is set back is seen once, by minutes or again by more; one that jumps ahead or drifts is not', () => {
  const isSetBack = watchForSetBack(1_000_000);
  const looks = [1_000_100, 996_000, 4_600_000, 1_000_000, 1_000_000, 1_000_900, 900_000];
  assert.equal(looks.map(isSetBack), [false, false, false, true, false, false, true]);
});
