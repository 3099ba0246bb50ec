import { PLAIN_CLASS, PLAIN_NUMBER } from '../../../../shared/stores/account-settings.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';

/** A grant as Postgres has it: of `grants`, a refill of the ledger, or the first credits of a record. */
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
  /** What names it in the ledger: its row, or the record for the first credits; null for what is not in total_micros. */
  ledgerId: string | null;
  createdAt: Date;
};

/** Grants of a record in the order of their ids: one, or some after another. */
export async function grantRows(
  sql: Query,
  billingId: string,
  which: { id: string } | { after: string; take: number },
): Promise<GrantRow[]> {
  const part = partOf(sql, which);
  const most = 'take' in which ? which.take : 1;
  return sql<GrantRow[]>`
    with found as (
      (select id, class, amount_micros, name, priority, begins_at, expires_at, rolls_until, metadata::text, schedule_id,
              voided_at, void_reason, void_number, before_micros, ledger_id, created_at
       from grants where billing_id = ${billingId} and ${part('id', 'grant')}
       order by id limit ${most})
      union all
      (select ${asGrant(sql, sql`l.id`)}, ${PLAIN_CLASS}, l.amount_micros, null, 50,
              floor(extract(epoch from l.created_at) * 1000)::bigint, null, null, null, null, null, null, null,
              l.total_micros - l.amount_micros, l.id, l.created_at
       from credit_ledger l
       where l.billing_id = ${billingId} and ${part('l.id', 'ledger')} and not exists (select from grants g where g.ledger_id = l.id)
       order by l.id limit ${most})
      union all
      (select ${asGrant(sql, sql`b.id`)}, ${PLAIN_CLASS}, f.micros, null, 50,
              floor(extract(epoch from b.created_at) * 1000)::bigint, null, null, null, null, null, null, null, 0, b.id,
              b.created_at
       from billing_records b, lateral (${firstCredits(sql)}) f
       where b.id = ${billingId} and f.micros > 0 and ${part('b.id', 'bill')}
         and not exists (select from grants g where g.ledger_id = b.id))
      order by 1 limit ${most})
    select f.id, f.class, f.amount_micros, f.name, f.priority, f.begins_at, f.expires_at, f.rolls_until,
           f.metadata::json as metadata, f.schedule_id, f.voided_at, f.void_reason, f.void_number,
           f.ledger_id, f.created_at, f.before_micros is not null as has_begun, coalesce(c.number, ${PLAIN_NUMBER})::int as number,
           (place.micros - voided.micros)::bigint as before_micros
    from found f
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

/** The id of the grant that a row of the ledger, or a record, stands for: its own with another prefix. */
function asGrant(sql: Query, id: ReturnType<Query>) {
  return sql`'grant_' || right(${id}, 26)`;
}

// The first refills may have been made by processes whose clocks differ a little.
function firstCredits(sql: Query) {
  return sql`
    select coalesce(min(l.before), b.total_micros) as micros from (
      select total_micros - amount_micros as before from credit_ledger where billing_id = b.id order by id limit 100) l`;
}

function partOf(sql: Query, which: { id: string } | { after: string; take: number }) {
  return (column: 'id' | 'l.id' | 'b.id', prefix: string) => {
    const as = (grantId: string) => grantId && prefix + grantId.slice(grantId.indexOf('_'));
    const name = sql(column);
    return 'id' in which ? sql`${name} = ${as(which.id)}` : sql`${name} > ${as(which.after)}`;
  };
}
