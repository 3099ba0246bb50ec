import { createTask } from 'node-cron';
import type { Sql } from '../../../shared/stores/postgres.ts';
import type { Running, Runtime } from '../../../shared/runtime/run.ts';

/** Work at set times. It may be cut off anywhere: the next run does all of it again. */
export type Job = {
  name: string;
  cron: string;
  /** Whether there is something to do; always, if it is not told. */
  isDue?(): Promise<boolean>;
  work(signal: AbortSignal): Promise<void>;
};

type StartJobsOptions = Runtime & {
  /** Has a connection for each job: what runs holds it. */
  sql: Sql;
};

const LOOK_AT_CLOCK_EVERY_MS = 1_000;

/** Runs each job at its times, and never twice at once, neither in this process nor in another. */
export function startJobs(jobs: Job[], options: StartJobsOptions): Running {
  const { clock } = options;
  const runner = makeRunner(options);
  // An alert counts how a number grows: the first failure, too.
  for (const { name } of jobs) options.metrics.jobSeconds.zero({ job: name, outcome: 'failed' });
  // node-cron tells the times. By its own timers nothing would run for as long as a clock was set back, and after a jump ahead, as of
  // a machine that slept, it walks through all times that were left out, for minutes.
  const plans = jobs.map((job) => {
    const task = createTask(job.cron, () => {}, { timezone: 'UTC' });
    return { job, isDue: makePlan(() => task.getNextRuns(1)[0]!.getTime(), clock.now()) };
  });
  const stopLooking = clock.every(LOOK_AT_CLOCK_EVERY_MS, () => {
    for (const { job, isDue } of plans) if (isDue(clock.now())) void runner.run(job);
  });
  return {
    async stop() {
      stopLooking();
      await runner.stop();
    },
  };
}

/** Tells at each look whether a time has come, once however many were left out; after the clock was set back, at once. */
export function makePlan(nextMs: () => number, beganMs: number): (nowMs: number) => boolean {
  let plannedMs = nextMs();
  let lookedMs = beganMs;
  return (nowMs) => {
    const isDue = nowMs >= plannedMs || nowMs < lookedMs;
    if (isDue) plannedMs = nextMs();
    lookedMs = nowMs;
    return isDue;
  };
}

/**
 * Runs jobs when it is told to, unless they are running here or elsewhere. A failure is logged, and the job runs again at its next
 * time. Stopping tells those that run, and waits for them.
 */
export function makeRunner({ sql, metrics, log, clock }: StartJobsOptions) {
  const stopping = new AbortController();
  const running = new Map<string, Promise<void>>();
  return {
    async run(job: Job): Promise<void> {
      if (running.has(job.name)) return;
      const run = runJob(job).finally(() => running.delete(job.name));
      running.set(job.name, run);
      await run;
    },
    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all(running.values());
    },
  };

  async function runJob({ name, isDue, work }: Job): Promise<void> {
    const started = clock.monotonic();
    const observe = (outcome: string) =>
      metrics.jobSeconds.observe({ job: name, outcome }, (clock.monotonic() - started) / 1000);
    try {
      if (isDue && !(await isDue())) return;
      if (await runUnlessElsewhere(sql, name, () => work(stopping.signal))) observe('done');
    } catch (error) {
      if (stopping.signal.aborted) return;
      observe('failed');
      log.warn({ error, job: name }, 'a job failed; it runs again at its next time');
    }
  }
}

/** Does the work unless another process is doing it, and gives whether it did. The lock ends with its transaction, and with its connection. */
async function runUnlessElsewhere(sql: Sql, name: string, work: () => Promise<void>): Promise<boolean> {
  return sql.begin(async (tx) => {
    await tx`set local idle_in_transaction_session_timeout = 0`;
    const [lock] = await tx<[{ taken: boolean }]>`
      select pg_try_advisory_xact_lock(hashtext('keytally jobs'), hashtext(${name})) as taken`;
    if (lock.taken) await work();
    return lock.taken;
  });
}
