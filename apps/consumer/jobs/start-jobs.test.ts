import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { eventually } from '../../../tests/helpers/world.ts';
import { makeConsumerWorld, type ConsumerWorld } from '../helpers/consumer-world.ts';
import { startJobs, type Job } from './start-jobs.ts';

let own: ConsumerWorld;
const test = suite('jobs');
test.before(async () => {
  own = await makeConsumerWorld();
});
test.after(() => own?.stop());

test('a job never runs twice at once and runs again after a failure, and stopping waits for it', async () => {
  let now = 0;
  let most = 0;
  let runs = 0;
  let stopped = 0;
  const job: Job = {
    name: 'test',
    cron: '* * * * * *',
    async work(signal) {
      most = Math.max(most, ++now);
      runs += 1;
      await sleep(1_200, undefined, { signal }).catch(() => (stopped += 1));
      now -= 1;
      if (runs === 1) throw new Error('the first time fails');
    },
  };
  const { world, metrics, log } = own;
  const connect = () => connectPostgres(world.env.DATABASE_URL!, { max: 1 });
  const processes = [1, 2].map(() => startJobs([job], { connect, metrics, log, clock: systemClock }));
  await eventually('it ran again', async () => runs >= 2);
  await Promise.all(processes.map((one) => one.stop()));
  assert.equal([now, most], [0, 1]);
  const text = await metrics.registry.metrics();
  assert.match(text, /keytally_job_seconds_count\{(?=.*job="test").*outcome="failed".*\} 1\n/);
  const after = runs;
  await sleep(1_100);
  assert.is(runs, after);
});

test('jobs go on after the clock of the machine was set back', async () => {
  let runs = 0;
  const job: Job = { name: 'clock', cron: '* * * * * *', work: async () => void runs++ };
  const { world, metrics, log } = own;
  const jobs = startJobs([job], {
    connect: () => connectPostgres(world.env.DATABASE_URL!, { max: 1 }),
    metrics,
    log,
    clock: systemClock,
  });
  await eventually('it runs', async () => runs >= 1);
  const restore = setBack(3 * 3_600_000);
  const before = runs;
  // One may be in progress.
  await eventually('it runs again', async () => runs >= before + 3);
  restore();
  await jobs.stop();
});

/** Sets this process's clock back until the returned function is called. */
function setBack(byMs: number): () => void {
  const RealDate = globalThis.Date;
  globalThis.Date = class extends RealDate {
    constructor(...args: unknown[]) {
      super(...((args.length === 0 ? [RealDate.now() - byMs] : args) as [number]));
    }
    static override now = () => RealDate.now() - byMs;
  } as DateConstructor;
  return () => void (globalThis.Date = RealDate);
}

test.run();
