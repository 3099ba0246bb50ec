import { historyOf, prunedJob } from '../../../shared/stores/postgres-history.ts';
import { eachOf, type Query, type Sql } from '../../../shared/stores/postgres.ts';

const ROWS_AT_ONCE = 5_000;
// Each locks its key, and the counters of its team at the commit.
const SECRETS_AT_ONCE = 200;

/** Removes rows that have expired, in transactions of at most a few thousand. */
export async function removeExpired(sql: Sql, signal: AbortSignal): Promise<void> {
  for (const [remove, atOnce] of [
    [removeIdempotencyKeys, ROWS_AT_ONCE],
    [removeSessions, ROWS_AT_ONCE],
    [removeLinkTokens, ROWS_AT_ONCE],
    [removeRevocations, ROWS_AT_ONCE],
    [pruneChanges, ROWS_AT_ONCE],
    [removeToldAlerts, ROWS_AT_ONCE],
    [removeDeliveries, ROWS_AT_ONCE],
    [removeDeliveriesOfDeleted, ROWS_AT_ONCE],
    [removeWebhookEvents, ROWS_AT_ONCE],
    [removeDeletedWebhooks, ROWS_AT_ONCE],
    [removeEndedSecrets, SECRETS_AT_ONCE],
    [removeEndedSigningKeys, ROWS_AT_ONCE],
  ] as const) {
    let removed: number;
    do {
      signal.throwIfAborted();
      removed = await sql.begin((tx) => remove(tx));
    } while (removed === atOnce);
  }
}

async function removeIdempotencyKeys(tx: Query): Promise<number> {
  const { count } = await tx`
    delete from idempotency_keys where ctid in (
      select ctid from idempotency_keys where created_at < now() - interval '24 hours' limit ${ROWS_AT_ONCE})`;
  return count;
}

async function removeSessions(tx: Query): Promise<number> {
  const { count } = await tx`
    delete from sessions where ctid in (select ctid from sessions where expires_at < now() limit ${ROWS_AT_ONCE})`;
  return count;
}

async function removeLinkTokens(tx: Query): Promise<number> {
  const { count } = await tx`
    delete from link_tokens where ctid in (
      select ctid from link_tokens
      where expires_at < extract(epoch from now() - interval '30 days') * 1000 limit ${ROWS_AT_ONCE})`;
  return count;
}

async function removeRevocations(tx: Query): Promise<number> {
  const { count } = await tx`
    delete from revoked_jwts where ctid in (
      select ctid from revoked_jwts where expires_at < now() limit ${ROWS_AT_ONCE})`;
  return count;
}

async function removeToldAlerts(tx: Query): Promise<number> {
  const { count } = await tx`
    delete from alerts_told where ctid in (
      select ctid from alerts_told where created_at < now() - interval '90 days' limit ${ROWS_AT_ONCE})`;
  return count;
}

async function removeDeliveries(tx: Query): Promise<number> {
  return removeDeliveriesOf(
    tx,
    tx`select id from webhook_deliveries where created_at < now() - interval '30 days' limit ${ROWS_AT_ONCE}`,
  );
}

async function removeDeliveriesOfDeleted(tx: Query): Promise<number> {
  return removeDeliveriesOf(
    tx,
    tx`select d.id from webhooks w join webhook_deliveries d on d.webhook_id = w.id
       where w.deleted_at is not null limit ${ROWS_AT_ONCE}`,
  );
}

async function removeDeliveriesOf(tx: Query, wanted: ReturnType<Query>): Promise<number> {
  const rows = await tx<{ id: string }[]>`${wanted}`;
  const ids = rows.map(({ id }) => id);
  await tx`delete from webhook_tries where delivery_id = any(${eachOf(tx, ids)})`;
  const { count } = await tx`delete from webhook_deliveries where id = any(${eachOf(tx, ids)})`;
  return count;
}

/** A cause that comes again is known by its event: it stays a day longer than what was delivered of it. */
async function removeWebhookEvents(tx: Query): Promise<number> {
  const { count } = await tx`
    delete from webhook_events where ctid in (
      select e.ctid from webhook_events e where e.created_at < now() - interval '31 days'
        and not exists (select from webhook_deliveries d where d.event_id = e.id) limit ${ROWS_AT_ONCE})`;
  return count;
}

async function removeDeletedWebhooks(tx: Query): Promise<number> {
  const { count } = await tx`
    delete from webhooks where ctid in (
      select w.ctid from webhooks w where w.deleted_at < now() - interval '1 hour'
        and not exists (select from webhook_deliveries d where d.webhook_id = w.id) limit ${ROWS_AT_ONCE})`;
  return count;
}

async function removeEndedSigningKeys(tx: Query): Promise<number> {
  const [row] = await tx<[{ removed: number }]>`select remove_ended_signing_keys(${ROWS_AT_ONCE}) as removed`;
  return row.removed;
}

async function removeEndedSecrets(tx: Query): Promise<number> {
  const [row] = await tx<[{ removed: number }]>`select remove_ended_secrets(${SECRETS_AT_ONCE}) as removed`;
  return row.removed;
}

/**
 * Prunes changes that were applied more than a day ago, oldest first, and stores how far: a shard with an earlier
 * checkpoint is written whole when it is reopened. A change that waits, or that no query can see yet, stops the pruning,
 * so an open shard never falls behind it; an adjustment may wait, because every opening looks for those by their numbers.
 */
async function pruneChanges(tx: Query): Promise<number> {
  const [pruned] = await tx<{ history: string; count: number; upTo: number | null }[]>`
    with waiting as (
      select tx from changes where applied_at is null and kind <> 'adjustment' order by tx limit 1
    ), prunable as (
      select id from changes
      where applied_at < now() - interval '1 day'
        and tx < pg_snapshot_xmin(pg_current_snapshot())
        and tx < coalesce((select tx from waiting), pg_snapshot_xmin(pg_current_snapshot()))
      order by tx limit ${ROWS_AT_ONCE}
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
