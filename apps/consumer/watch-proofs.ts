import type { Clock } from '../../shared/runtime/clock.ts';
import { countUnproved } from '../../shared/books/reconciling/unproved-records.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../shared/runtime/loop.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Sql } from '../../shared/stores/postgres.ts';

const EVERY_MS = 15_000;

/**
 * Keeps the gauges of what the last comparisons with the books found, until stopped. Every process reads them: the one that
 * compared last is not the one that compares next, and may be gone.
 */
export function watchProofs(sql: Sql, metrics: Metrics, log: Logger, clock: Clock): Loop {
  const startedAt = clock.monotonic();
  return startLoop(clock, EVERY_MS, log, 'counting the records that differ from the books', async () => {
    const { different, undecided, ageSeconds } = await countUnproved(sql);
    metrics.unlikeRecords.set(different);
    metrics.undecidedRecords.set(undecided);
    // Before the first comparison of all, the time for which nobody has made it.
    metrics.reconcileAgeSeconds.set(ageSeconds ?? (clock.monotonic() - startedAt) / 1000);
  });
}
