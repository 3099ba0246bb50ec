import { type Kafka, waitingIn } from '../../shared/events/kafka.ts';
import { startLoop } from '../../shared/runtime/loop.ts';
import type { Running, Runtime } from '../../shared/runtime/run.ts';

type WatchdogOptions = Runtime & {
  kafka: Kafka;
  assigned(): ReadonlySet<number>;
  /** False or rejected while a store that we write to is unavailable: the consumer is right to wait then. */
  reachable(): Promise<boolean>;
  afterMs: number;
  /** Called when events wait, every store answers, and still no offset moves. */
  stuck(error: Error): void;
};

/**
 * Watches the progress of reading Kafka. When events wait, all stores answer, and still no offset moves for `afterMs`,
 * something in this process hangs, and only a new process helps.
 */
export function startWatchdog(options: WatchdogOptions): Running {
  const { kafka, assigned, afterMs, metrics, log, clock } = options;
  let before = '';
  let movedAtMs = clock.monotonic();
  return startLoop(clock, Math.min(5_000, afterMs / 5), log, 'watching the progress in Kafka', async () => {
    const lookedAtMs = clock.monotonic();
    const all = await kafka.progress().catch((error: unknown) => {
      movedAtMs = lookedAtMs;
      throw error;
    });
    metrics.kafkaLagEvents.set(waitingIn(all));
    // A consumer without partitions (there are too many consumers, or it can't join) watches all of them.
    const ours = assigned().size > 0 ? all.filter(({ partition }) => assigned().has(partition)) : all;
    const state = ours.map(({ partition, committed }) => `${partition}:${committed}`).join(' ');
    const waiting = ours.some(({ committed, end }) => end > committed);
    if (state !== before || !waiting || !(await options.reachable().catch(() => false))) movedAtMs = lookedAtMs;
    before = state;
    if (lookedAtMs - movedAtMs > afterMs)
      options.stuck(new Error(`events wait in Kafka and no offset has moved for ${afterMs / 1000} s`));
  });
}
