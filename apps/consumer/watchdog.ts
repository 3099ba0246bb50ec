import type { Kafka } from '../../shared/events/kafka.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import { startLoop } from '../../shared/runtime/loop.ts';
import type { Running } from '../../shared/runtime/run.ts';

type WatchdogOptions = {
  kafka: Kafka;
  /** The partitions that are this consumer's. */
  assigned(): ReadonlySet<number>;
  /** Rejects, or is false, while one of the stores that are written to is away: waiting is right then. */
  reachable(): Promise<boolean>;
  afterMs: number;
  metrics: Metrics;
  log: Logger;
  /** Called once, when nothing moves although it could. */
  stuck(error: Error): void;
};

/**
 * Looks after the reading of Kafka from outside: when events wait, all stores answer, and yet no offset has moved for
 * long, then something in this process hangs that only a new one helps.
 */
export function startWatchdog({ kafka, assigned, reachable, afterMs, metrics, log, stuck }: WatchdogOptions): Running {
  let before = '';
  let movedAtMs = performance.now();
  return startLoop(Math.min(5_000, afterMs / 5), log, 'looking after the reading of Kafka', async () => {
    const well = performance.now();
    const all = await kafka.progress().catch((error: unknown) => {
      movedAtMs = well;
      throw error;
    });
    metrics.kafkaLagEvents.set(all.reduce((sum, { committed, end }) => sum + end - committed, 0));
    // Without partitions, for it is one consumer too many or can't join: whether any consumer gets on.
    const ours = assigned().size > 0 ? all.filter(({ partition }) => assigned().has(partition)) : all;
    const state = ours.map(({ partition, committed }) => `${partition}:${committed}`).join(' ');
    const waiting = ours.some(({ committed, end }) => end > committed);
    if (state !== before || !waiting || !(await reachable().catch(() => false))) movedAtMs = well;
    before = state;
    if (well - movedAtMs > afterMs) stuck(new Error(`events wait in Kafka and none was done for ${afterMs / 1000} s`));
  });
}
