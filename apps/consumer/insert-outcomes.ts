import { ClickHouseError } from '@clickhouse/client';
import type { Clock } from '../../shared/runtime/clock.ts';
import {
  COUNTS_KEPT_MS,
  outcomeRow,
  outcomeTable,
  REFUSALS_KEPT_MS,
  timeOfOutcome,
  type CarriedOutcome,
  type OutcomeKind,
} from '../../shared/events/outcome.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import { retry } from '../../shared/runtime/retry.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { OpenAddresses } from './client-addresses.ts';
import type { NotifyLimits } from './notify-limits.ts';

// ClickHouse's own errors, such as of a query that was cut off, may pass; after so many it is the rows that it does not take.
const REFUSED_AT_MOST = 10;
const CLOCKS_DIFFER_MS = 3_600_000;

const keptMs: Record<OutcomeKind, number> = { count: COUNTS_KEPT_MS, refusal: REFUSALS_KEPT_MS };

type Options = {
  books: Pick<Books, 'client'>;
  notifyLimits: NotifyLimits;
  openAddresses: OpenAddresses;
  metrics: Metrics;
  log: Logger;
  clock: Clock;
};

/**
 * Inserts outcomes into the books; inserted again, they are the same rows. Usage events wait behind them, so what ClickHouse
 * refuses again and again is dropped. While it is unavailable they wait for it, as events do. Then webhooks are notified of limits.
 */
export function makeInsertOutcomes({ books, notifyLimits, openAddresses, metrics, log, clock }: Options) {
  return async function insertOutcomes(outcomes: CarriedOutcome[], signal: AbortSignal): Promise<void> {
    for (const [kind, some] of Map.groupBy(outcomes, (one) => one.kind)) {
      const kept = some.filter((one) => isKept(one, clock.now()));
      let refused = 0;
      await retry(clock, signal, log, 'inserting outcomes', async () => {
        try {
          const values = (await openAddresses(kept)).map(outcomeRow);
          const { table, columns } = outcomeTable(kind);
          if (kept.length > 0) await books.client.insert({ table, columns, values, format: 'JSONCompactEachRow' });
        } catch (error) {
          refused += error instanceof ClickHouseError ? 1 : 0;
          if (refused < REFUSED_AT_MOST) throw error;
          metrics.droppedOutcomes.inc(kept.length);
          log.error({ error, rows: kept.length }, 'outcomes were dropped');
        }
      });
    }
    await retry(clock, signal, log, 'notifying webhooks of limits', () => notifyLimits(outcomes));
  };
}

// A row that is no longer kept would only make a partition of its own.
function isKept(outcome: CarriedOutcome, nowMs: number): boolean {
  const timeMs = timeOfOutcome(outcome);
  return timeMs > nowMs - keptMs[outcome.kind] && timeMs < nowMs + CLOCKS_DIFFER_MS;
}
