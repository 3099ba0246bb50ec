import { noteUnsettled } from '../../../shared/books/rebuilding/unsettled-records.ts';
import { dayOf } from '../../../shared/events/event.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { markDays } from '../../../shared/stores/usage-marks.ts';
import { parseCredits } from '../../../shared/values/credits.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import type { Customer } from './cast.ts';

/** Where the past is written: the books, and what Postgres says of them. */
export type PastStores = { sql: Sql; books: Books };

/**
 * Makes up so many days before today, in the order of the consumer: events into the books, then the marks of their
 * days. The transaction of the marks also makes everything as old as its first event, so that no month closes
 * without them. Balances come from the books, some seconds later, as after the loss of a Redis.
 */
export async function writePast({ sql, books }: PastStores, customers: Customer[], days: number): Promise<number> {
  const { workspaceId } = customers[0]!;
  const startMs = (Math.floor(Date.now() / DAY_MS) - days) * DAY_MS;
  for (const customer of customers) await insertEvents(books, customer, startMs, days);
  const billingIds = customers.map(({ billingId }) => billingId);
  const made = new Date(startMs);
  const allDays = Array.from({ length: days }, (_, i) => dayOf(startMs + i * DAY_MS));
  await sql.begin(async (tx) => {
    await tx`update workspaces set created_at = ${made} where id = ${workspaceId}`;
    await tx`update api_keys set created_at = ${made} where workspace_id = ${workspaceId}`;
    await tx`update billing_records set created_at = ${made} where id = any(${billingIds})`;
    await tx`update grants set begins_at = ${startMs} where billing_id = any(${billingIds})`;
    const marked = billingIds.flatMap((billingId) => allDays.map((day) => ({ workspaceId, billingId, day })));
    await markDays(tx, marked);
    await noteUnsettled(tx, billingIds);
  });
  return customers.reduce((sum, { callsPerDay }) => sum + days * callsPerDay, 0);
}

/**
 * There are more calls on later days. No shard of Redis ever had epoch 0: to it, the events are what a Redis of before has lost, and it
 * takes them from the books. One call in six is of the second key, where there are two.
 */
async function insertEvents({ client }: Books, customer: Customer, startMs: number, days: number): Promise<void> {
  const { workspaceId, billingId, customerId, keyIds, usageNames: names, cost, callsPerDay } = customer;
  await client.command({
    query: `
      insert into usage_events (workspace_id, billing_id, day, event_id, kind, key_id, customer_id, usage_name, cost_micros,
                                used_micros, epoch, seq, route, time)
      with number + 1 as seq,
           {spanMs:Float64} * pow((number + 0.5) / {calls:UInt64}, 0.7) as ms_later,
           fromUnixTimestamp64Milli({startMs:Int64} + toInt64(ms_later), 'UTC') as time,
           {names:Array(String)} as names,
           names[1 + toUInt32(length(names) * pow(seq * 0.6180339887 - floor(seq * 0.6180339887), 2))] as usage_name
      select {workspaceId:String}, {billingId:String}, toDate(time),
             concat('evt_0', lower(substring(hex(SHA1(concat('made up ', {billingId:String}, ' ', toString(seq)))), 1, 25))),
             'verification', {keys:Array(String)}[if(seq % 6 = 0, 2, 1)], {customerId:String}, usage_name,
             {costMicros:Int64}, {costMicros:Int64} * seq, 0, seq, concat('/v2/', usage_name), time
      from numbers({calls:UInt64})`,
    query_params: {
      workspaceId,
      billingId,
      customerId,
      names,
      startMs,
      costMicros: parseCredits(cost)!,
      spanMs: days * DAY_MS,
      calls: days * callsPerDay,
      keys: [keyIds[0], keyIds[1] ?? keyIds[0]],
    },
  });
}
