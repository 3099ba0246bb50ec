import { readBalances, type Balance } from '../../shared/books/balances.ts';
import type { BillingRef } from '../../shared/books/billing-refs.ts';
import { noteCredits, type CreditRecord } from '../../shared/books/credit-states.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import { startDueLoop, type DueLoop } from '../../shared/stores/due-loops.ts';
import type { Query, Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';

const RECORDS_AT_ONCE = 500;
const AGAIN_SECONDS = 5;

/**
 * Looks at records whose credits may be exhausted or replenished, until stopped, and notifies webhooks. A note that was taken comes
 * again after 5 s unless it is removed: when the process dies, or a shard is closed, somebody looks later.
 */
export function startLookingAtCredits(sql: Sql, redis: ShardedRedis, log: Logger): DueLoop {
  return startDueLoop({ clock: redis.clock, log }, 'looking at credits for webhooks', someDue, async () => {
    const looks = await takeLooks(sql);
    for (const ofShard of Map.groupBy(looks, ({ shard }) => shard).values())
      await lookAt(sql, redis, ofShard).catch((error: unknown) =>
        log.debug({ error, records: ofShard.length }, 'the credits of a shard are not known now'),
      );
    if (looks.length === RECORDS_AT_ONCE) return 0;
  });
}

const someDue = (sql: Sql) => sql`exists (select from credit_looks where look_at <= now())`;

type Look = BillingRef & { mark: number };
type Known = CreditRecord & {
  totalMicros: number;
  /** What has begun and is counted, or will be by the next turn. */
  grantedMicros: number;
};

/** Takes notes that are due: nobody else looks at these records meanwhile. */
export async function takeLooks(sql: Sql): Promise<Look[]> {
  return sql<Look[]>`
    with taken as (
      update credit_looks set look_at = now() + make_interval(secs => ${AGAIN_SECONDS})
      where billing_id in (select billing_id from credit_looks where look_at <= now() order by look_at limit ${RECORDS_AT_ONCE}
                           for update skip locked)
      returning billing_id, mark)
    select b.id, b.workspace_id, b.external_meter_id, b.shard, taken.mark
    from taken join billing_records b on b.id = taken.billing_id
    order by b.id`;
}

/** Looks at records of one shard, and removes the notes that are still the same. */
export async function lookAt(sql: Sql, redis: ShardedRedis, looks: Look[]): Promise<void> {
  const balances = new Map((await readBalances(redis, looks)).map((one) => [one.billing.id, one]));
  for (const look of looks) {
    const balance = balances.get(look.id);
    // One that is held, or not in force yet, is looked at later.
    if (!balance) continue;
    await sql.begin(async (tx) => {
      const record = await readLocked(tx, look.id);
      // Who was asked to look since then knows more.
      const { count } = await tx`delete from credit_looks where billing_id = ${look.id} and mark = ${look.mark}`;
      if (count > 0) await noteCredits(tx, record, amountsOf(record, balance), balance.atMs);
    });
  }
}

/** What a record has now. Who adds to it at this moment comes after, and asks for another look if it is exhausted. */
async function readLocked(tx: Query, id: string): Promise<Known> {
  const [record] = await tx<[Known]>`
    select b.id, b.team_id, b.workspace_id, b.external_meter_id, b.allow_overages, b.spend_cap_micros, b.total_micros,
           (b.granted_micros + begun.micros)::bigint as granted_micros
    from billing_records b
    cross join lateral (
      select coalesce(sum(g.amount_micros), 0) as micros from grants g
      where g.billing_id = b.id and g.before_micros is null and g.voided_at is null
        and g.begins_at <= extract(epoch from now()) * 1000) begun
    where b.id = ${id} for no key update of b`;
  return record;
}

/** What was added a moment ago is in Postgres before it is in Redis; totals never fall. */
function amountsOf({ totalMicros, grantedMicros }: Known, balance: Balance) {
  const { usedMicros, heldMicros = 0, expiredMicros = 0 } = balance;
  return {
    usedMicros,
    heldMicros,
    expiredMicros,
    totalMicros: Math.max(balance.totalMicros ?? 0, totalMicros + grantedMicros),
  };
}
