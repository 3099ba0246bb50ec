import { ClickHouseError } from '@clickhouse/client';
import {
  COUNTS_KEPT_MS,
  outcomeRow,
  outcomeTable,
  REFUSALS_KEPT_MS,
  timeOfOutcome,
  type CarriedOutcome,
  type OutcomeKind,
} from '../../shared/events/outcome.ts';
import type { Runtime } from '../../shared/runtime/run.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { withAddresses } from './client-addresses.ts';

// ClickHouse's own errors, such as of a query that was cut off, may pass; after so many it is the rows that it does not take.
const REFUSED_AT_MOST = 10;
const CLOCKS_DIFFER_MS = 3_600_000;

const keptMs: Record<OutcomeKind, number> = { count: COUNTS_KEPT_MS, refusal: REFUSALS_KEPT_MS };

type Options = Runtime & { sql: Sql; redis: ShardedRedis; books: Books };

/**
 * Makes what inserts outcomes into the books; inserted again, they are the same rows. Usage events wait behind them, so what ClickHouse
 * refuses again and again is dropped. While it is unavailable they wait for it, as events do.
 */
export function makeInsertOutcomes({ sql, redis, books, metrics, log, clock }: Options) {
  let refused = 0;
  return async function insertOutcomes(outcomes: CarriedOutcome[]): Promise<void> {
    const kept = outcomes.filter((one) => isKept(one, clock.now()));
    for (const [kind, some] of Map.groupBy(kept, (one) => one.kind)) {
      try {
        const values = (await withAddresses(sql, redis, some)).map(outcomeRow);
        const { table, columns } = outcomeTable(kind);
        await books.client.insert({ table, columns, values, format: 'JSONCompactEachRow' });
      } catch (error) {
        refused += error instanceof ClickHouseError ? 1 : 0;
        if (refused < REFUSED_AT_MOST) throw error;
        metrics.droppedOutcomes.inc(some.length);
        log.error({ error, rows: some.length }, 'outcomes were dropped');
        refused = 0;
      }
    }
    refused = 0;
  };
}

// A row that is no longer kept would only make a partition of its own.
function isKept(outcome: CarriedOutcome, nowMs: number): boolean {
  const timeMs = timeOfOutcome(outcome);
  return timeMs > nowMs - keptMs[outcome.kind] && timeMs < nowMs + CLOCKS_DIFFER_MS;
}
