import { PLAIN_CLASS, PLAIN_NUMBER } from '../../../../shared/stores/account-settings.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';

/** A grant as Postgres has it. */
export type GrantRow = {
  id: string;
  class: string;
  /** By which the account and the books name its class; and of a voided one the class that it became, null where it had its own. */
  number: number;
  voidNumber: number | null;
  amountMicros: number;
  name: string | null;
  priority: number;
  beginsAt: number;
  expiresAt: number | null;
  rollsUntil: number | null;
  metadata: Record<string, unknown> | null;
  scheduleId: string | null;
  voidedAt: number | null;
  voidReason: string | null;
  /** Whether it was counted as begun; one that was voided before is never counted. */
  hasBegun: boolean;
  /** What stands before it in its class. */
  beforeMicros: number;
  createdAt: Date;
};

/** Grants of a record in the order of their ids: one, or some after another. */
export async function grantRows(
  sql: Query,
  billingId: string,
  which: { id: string } | { after: string; take: number },
): Promise<GrantRow[]> {
  const [isAsked, most] = 'id' in which ? [sql`id = ${which.id}`, 1] : [sql`id > ${which.after}`, which.take];
  return sql<GrantRow[]>`
    select f.id, f.class, f.amount_micros, f.name, f.priority, f.begins_at, f.expires_at, f.rolls_until, f.metadata, f.schedule_id,
           f.voided_at, f.void_reason, f.void_number, f.created_at, f.before_micros is not null as has_begun,
           coalesce(c.number, ${PLAIN_NUMBER})::int as number, (place.micros - voided.micros)::bigint as before_micros
    from (select * from grants where billing_id = ${billingId} and ${isAsked} order by id limit ${most}) f
    join billing_records b on b.id = ${billingId}
    left join grant_classes c on c.billing_id = b.id and c.ref = f.class
    -- Those that begin later are counted after what is counted now.
    cross join lateral (
      select coalesce(f.before_micros, case when f.class = ${PLAIN_CLASS} then b.total_micros else c.begun_micros end
        + (select coalesce(sum(o.amount_micros), 0) from grants o
           where o.billing_id = b.id and o.class = f.class and o.before_micros is null and o.voided_at is null
             and (o.begins_at, o.id) < (f.begins_at, f.id))) as micros) place
    cross join lateral (
      select coalesce(sum(v.amount_micros), 0) as micros from grants v
      where v.billing_id = b.id and v.class = f.class and v.voided_at is not null and v.before_micros < place.micros) voided
    order by f.id`;
}
