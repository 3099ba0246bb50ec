import type { Query } from '../../../../shared/stores/postgres.ts';
import { matching } from '../rows.ts';
import { billings, type BillingRow } from './billings.ts';

/** Which records of a workspace a list has. */
export type BillingFilter = {
  workspaceId: string;
  externalMeterId: string | undefined;
  customerId: string | undefined;
  belowMicros: number | undefined;
};

/** A record at its place in a list. */
export type ListedBilling = { id: string; row: BillingRow };

/** What a list is ordered by. Each order is that of an index, so that a page reads its own rows, however many there are. */
export function orderOf({ customerId, belowMicros }: BillingFilter): 'meter' | 'available' | 'id' {
  if (customerId !== undefined) return 'meter';
  return belowMicros === undefined ? 'id' : 'available';
}

/** The next records of a list after a place. */
export async function billingsAfter(
  sql: Query,
  filter: BillingFilter,
  after: string,
  take: number,
): Promise<ListedBilling[]> {
  const order = orderOf(filter);
  const asked = { sql, filter, after, take };
  if (order === 'meter') return byMeter(asked);
  return order === 'available' ? byAvailable(asked) : byId(asked);
}

type Asked = { sql: Query; filter: BillingFilter; after: string; take: number };

async function byId({ sql, filter, after, take }: Asked): Promise<ListedBilling[]> {
  const rows = await sql<BillingRow[]>`
    select ${billings.columns(sql)} from billing_records b
    where workspace_id = ${filter.workspaceId} and id > ${after} and ${matching(sql, { externalMeterId: filter.externalMeterId })}
    order by id limit ${take}`;
  return rows.map((row) => ({ id: row.id, row }));
}

async function byAvailable({ sql, filter, after, take }: Asked): Promise<ListedBilling[]> {
  // Amounts below 0 stand in the cursor too: a text has no dot.
  const [micros, id] = after === '' ? [null, ''] : (after.split(':') as [string, string]);
  const rows = await sql<(BillingRow & { available: number })[]>`
    select ${billings.columns(sql)}, ${available(sql)} as available from billing_records b
    where workspace_id = ${filter.workspaceId} and ${available(sql)} < ${filter.belowMicros!}::bigint
      ${micros === null ? sql`` : sql`and (${available(sql)}, id) > (${micros}::bigint, ${id})`}
      and ${matching(sql, { externalMeterId: filter.externalMeterId })}
    order by ${available(sql)}, id limit ${take}`;
  return rows.map(({ available: left, ...row }) => ({ id: `${left}:${row.id}`, row }));
}

/** Steps from meter to meter of the customer's keys: it may have many keys of one meter. */
async function byMeter({ sql, filter, after, take }: Asked): Promise<ListedBilling[]> {
  const { workspaceId, customerId, belowMicros } = filter;
  // A cursor names the record: its meter may be longer than a cursor.
  const meterOf = sql`(select external_meter_id from billing_records where workspace_id = ${workspaceId} and id = ${after})`;
  const nextMeter = (than: ReturnType<Query>) => sql`
    select k.external_meter_id from api_keys k
    where k.workspace_id = ${workspaceId} and k.customer_id = ${customerId!} and k.external_meter_id > ${than}
    order by k.external_meter_id limit 1`;
  const rows = await sql<BillingRow[]>`
    with recursive meters as (
      (${nextMeter(sql`coalesce(${meterOf}, '')`)})
      union all
      select (${nextMeter(sql`m.external_meter_id`)}) from meters m where m.external_meter_id is not null)
    select b.* from meters m cross join lateral (
      select ${billings.columns(sql)} from billing_records b
      where workspace_id = ${workspaceId} and external_meter_id = m.external_meter_id and ${matching(sql, { externalMeterId: filter.externalMeterId })}
        ${belowMicros === undefined ? sql`` : sql`and ${available(sql)} < ${belowMicros}::bigint`}) b
    limit ${take}`;
  return rows.map((row) => ({ id: row.id, row }));
}

/** The expression of the index billing_records_available. */
function available(sql: Query) {
  return sql`(greatest(total_of_account_micros, total_micros + granted_micros) - used_micros - held_micros - expired_micros)`;
}
