import { KEPT_DAYS } from './plan-meters.ts';
import { historyOf, prunedJob } from '../../../shared/stores/postgres-history.ts';
import { eachOf, type Query, type Sql } from '../../../shared/stores/postgres.ts';

const ROWS_AT_ONCE = 5_000;
// Each locks its key, and the counters of its team at the commit.
const SECRETS_AT_ONCE = 200;

/** What removes some rows, and gives how many; as many as it was told may have left more. */
type Remove = (tx: Query, atOnce: number) => Promise<number>;

const removals: [remove: Remove, atOnce?: number][] = [
  [removeRows('idempotency_keys', `created_at < now() - interval '24 hours'`)],
  [removeRows('sessions', 'expires_at < now()')],
  [removeRows('link_tokens', `expires_at < extract(epoch from now() - interval '30 days') * 1000`)],
  [removeRows('revoked_jwts', 'expires_at < now()')],
  [pruneChanges],
  [removeRows('alerts_told', `created_at < now() - interval '90 days'`)],
  [removeDeliveries(`select id from webhook_deliveries where created_at < now() - interval '30 days'`)],
  [
    removeDeliveries(
      'select d.id from webhooks w join webhook_deliveries d on d.webhook_id = w.id where w.deleted_at is not null',
    ),
  ],
  // A cause that comes again is known by its event: it stays a day longer than what was delivered of it.
  [
    removeRows(
      'webhook_events',
      `created_at < now() - interval '31 days'
         and not exists (select from webhook_deliveries d where d.event_id = webhook_events.id)`,
    ),
  ],
  [
    removeRows(
      'webhooks',
      `deleted_at < now() - interval '1 hour'
         and not exists (select from webhook_deliveries d where d.webhook_id = webhooks.id)`,
    ),
  ],
  // What waits or failed goes with its destination alone; sums of all stay.
  [
    removeRows(
      'meter_events',
      `created_at < now() - interval '${KEPT_DAYS} days' and state not in ('WAITING', 'FAILED')`,
    ),
  ],
  [removeBy('remove_ended_secrets'), SECRETS_AT_ONCE],
  [removeBy('remove_ended_signing_keys')],
  ...['meter_events', 'meter_days', 'meter_rests'].map((table): [Remove] => [removeOfDeletedMeters(table)]),
];

/** Removes rows that have expired, in transactions of at most a few thousand. */
export async function removeExpired(sql: Sql, signal: AbortSignal): Promise<void> {
  for (const [remove, atOnce = ROWS_AT_ONCE] of removals) {
    let removed: number;
    do {
      signal.throwIfAborted();
      removed = await sql.begin((tx) => remove(tx, atOnce));
    } while (removed === atOnce);
  }
}

function removeRows(table: string, condition: string): Remove {
  return async (tx, atOnce) => {
    const some = `select ctid from ${table} where ${condition} limit ${atOnce}`;
    return (await tx.unsafe(`delete from ${table} where ctid in (${some})`)).count;
  };
}

/** By an index, from each destination: they may have millions of rows, and the others many more. */
function removeOfDeletedMeters(table: string): Remove {
  return async (tx, atOnce) => {
    const some = `
      select m.ctid from meter_destinations d
      cross join lateral (select ctid from ${table} where destination_id = d.id limit ${atOnce}) m
      where d.deleted_at is not null limit ${atOnce}`;
    return (await tx.unsafe(`delete from ${table} where ctid = any(array(${some}))`)).count;
  };
}

function removeDeliveries(wanted: string): Remove {
  return async (tx, atOnce) => {
    const rows = await tx.unsafe<{ id: string }[]>(`${wanted} limit ${atOnce}`);
    const ids = rows.map(({ id }) => id);
    await tx`delete from webhook_tries where delivery_id = any(${eachOf(tx, ids)})`;
    return (await tx`delete from webhook_deliveries where id = any(${eachOf(tx, ids)})`).count;
  };
}

/** By a function of Postgres, which may more than the consumer. */
function removeBy(name: string): Remove {
  return async (tx, atOnce) => {
    const [row] = await tx.unsafe<[{ removed: number }]>(`select ${name}(${atOnce}) as removed`);
    return row.removed;
  };
}

/**
 * Prunes changes that were applied more than a day ago, oldest first, and stores how far: a shard with an earlier
 * checkpoint is filled anew when it is reopened. A change that waits, or that no query can see yet, stops the pruning,
 * so an open shard never falls behind it; an adjustment may wait, because every opening applies those again that are still there: whose
 * events the books may lack. The newest stays: it tells how far Postgres has come.
 */
async function pruneChanges(tx: Query, atOnce: number): Promise<number> {
  const [pruned] = await tx<{ history: string; count: number; upTo: number | null }[]>`
    with waiting as (
      select tx from changes where applied_at is null and kind <> 'adjustment' order by tx limit 1
    ), prunable as (
      select id from changes
      where id < (select max(id) from changes)
        and applied_at < least(now(), (select to_timestamp(at / 1000) from job_watermarks where job = 'books_reach')) - interval '1 day'
        and tx < pg_snapshot_xmin(pg_current_snapshot())
        and tx < coalesce((select tx from waiting), pg_snapshot_xmin(pg_current_snapshot()))
      order by tx limit ${atOnce}
    ), gone as (
      delete from changes using prunable where changes.id = prunable.id returning changes.tx
    )
    select ${historyOf(tx)} as history, count(*) as count, max(tx::text::bigint) as up_to from gone`;
  if (!pruned || pruned.upTo === null) return 0;
  await tx`
    insert into job_watermarks as known (job, at) values (${prunedJob(pruned.history)}, ${pruned.upTo})
    on conflict (job) do update set at = greatest(known.at, excluded.at)`;
  return pruned.count;
}
