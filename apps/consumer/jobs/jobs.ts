import { schedule } from 'node-cron';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Metrics } from '../../../shared/runtime/metrics.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { Running } from '../../../shared/runtime/run.ts';

/** Work done again and again. A job that is stopped or dies in the middle is simply done again. */
export type Job = { name: string; cron: string; work(signal: AbortSignal): Promise<void> };

/** `connect` makes a connection for one run of a job, which ends it. */
type Tools = { connect: () => Sql; metrics: Metrics; log: Logger };

/**
 * Runs each job at its times: never twice at once, not in this process and not in any other. A failure is logged, and
 * the next time comes all the same.
 */
export function startJobs(jobs: Job[], { connect, metrics, log }: Tools): Running {
  const stopping = new AbortController();
  const running = new Map<string, Promise<void>>();
  const tasks = jobs.map((job) =>
    schedule(
      job.cron,
      () => {
        if (running.has(job.name)) return;
        running.set(
          job.name,
          runJob(job).finally(() => running.delete(job.name)),
        );
      },
      // A time that was missed while this process was busy is made up for by the next one.
      { timezone: 'UTC', suppressMissedWarning: true },
    ),
  );
  return {
    async stop() {
      stopping.abort();
      for (const task of tasks) await task.destroy();
      await Promise.all(running.values());
    },
  };

  async function runJob({ name, work }: Job): Promise<void> {
    const started = performance.now();
    const observe = (outcome: string) =>
      metrics.jobSeconds.observe({ job: name, outcome }, (performance.now() - started) / 1000);
    try {
      if (await alone(connect, name, () => work(stopping.signal))) observe('done');
    } catch (error) {
      if (stopping.signal.aborted) return;
      observe('failed');
      log.warn({ error, job: name }, 'a job failed; it is done again at its next time');
    }
  }
}

/**
 * Does some work unless another process does it; gives whether it was done. The lock goes with its connection, which is
 * in no pool: the driver (postgres 3.4) gives one that was lost and made again to others, whose it would be by the end.
 */
async function alone(connect: () => Sql, name: string, work: () => Promise<void>): Promise<boolean> {
  const own = connect();
  try {
    // Reserved, or it would be closed as an idle one.
    const connection = await own.reserve();
    const [lock] = await connection<{ taken: boolean }[]>`
      select pg_try_advisory_lock(hashtext('keytally jobs'), hashtext(${name})) as taken`;
    if (lock!.taken) await work();
    return lock!.taken;
  } finally {
    await own.end({ timeout: 0 });
  }
}
