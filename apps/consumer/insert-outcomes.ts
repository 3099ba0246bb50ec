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
import { openAddresses } from '../../shared/events/sealed-addresses.ts';
import type { Runtime } from '../../shared/runtime/run.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';

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
    // A row that is no longer kept would only make a partition of its own.
    const kept = outcomes.filter((one) => {
      const [timeMs, nowMs] = [timeOfOutcome(one), clock.now()];
      return timeMs > nowMs - keptMs[one.kind] && timeMs < nowMs + CLOCKS_DIFFER_MS;
    });
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

/**
 * Opens the addresses that refusals carry, of workspaces that keep them, and takes off all others, just before they are inserted: a
 * workspace that keeps none has none in the books.
 */
async function withAddresses(sql: Sql, redis: ShardedRedis, outcomes: CarriedOutcome[]): Promise<CarriedOutcome[]> {
  const named = outcomes.flatMap((one) => (one.kind === 'refusal' && one.address !== '' ? [one] : []));
  if (named.length === 0) return outcomes;
  const ids = [...new Set(named.map(({ workspaceId }) => workspaceId))];
  const rows = await sql<{ id: string }[]>`
    select id from workspaces where id = any(${ids}) and keep_client_addresses`;
  const keeping = new Set(rows.map(({ id }) => id));
  const kept = named.filter(({ workspaceId }) => keeping.has(workspaceId));
  const addresses = kept.map(({ address }) => address);
  const open = await openAddresses(redis, addresses);
  return outcomes.map((one) => {
    if (one.kind !== 'refusal') return one;
    return { ...one, address: keeping.has(one.workspaceId) ? open(one.address, one.id) : '' };
  });
}
