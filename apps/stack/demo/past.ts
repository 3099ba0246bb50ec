import { setTimeout as sleep } from 'node:timers/promises';
import type { Keytally } from '../../../clients/node/index.ts';
import { noteUnsettled } from '../../../shared/books/rebuilding/unsettled-records.ts';
import { dayOf, eventColumns, eventRow, NO_CHANGES, type UsageEvent } from '../../../shared/events/event.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { markDays } from '../../../shared/stores/usage-marks.ts';
import { formatCredits, parseCredits } from '../../../shared/values/credits.ts';
import { derivedId } from '../../../shared/values/ids.ts';
import { DAY_MS, QUARTER_MS } from '../../../shared/values/periods.ts';
import { StackError } from '../process/errors.ts';
import { usageNameOf, usedOn, type Customer } from './cast.ts';

/** Where the past is written: the books, and what Postgres says of them. */
export type PastStores = { sql: Sql; books: Books };

// No shard of Redis ever had this epoch: to it, the events are what a Redis of before has lost, and it takes them from the books.
const EPOCH = 0;
const ofOtherKinds = {
  number: 0,
  actor: '',
  reason: '',
  heldMicros: 0,
  holdId: '',
  holdMicros: 0,
  detail: '',
  classes: NO_CHANGES,
  crossed: '',
};
const ROWS_AT_ONCE = 20_000;
const SETTLE_WITHIN_MS = 60_000;
const LOOK_EVERY_MS = 250;
// Of a customer with two keys, one call in so many is of the second one.
const ONE_OF_SECOND_KEY = 6;

/**
 * Makes up so many days before today, in the order of the consumer: events into the books, then the marks of their
 * days. The transaction of the marks also makes everything as old as its first event, so that no month closes
 * without them. Balances come from the books, as after the loss of a Redis; returns when all of them are there.
 */
export async function writePast(
  client: Keytally,
  { sql, books }: PastStores,
  customers: Customer[],
  days: number,
): Promise<number> {
  const { workspaceId } = customers[0]!;
  const startMs = (Math.floor(Date.now() / DAY_MS) - days) * DAY_MS;
  let events = 0;
  for (const customer of customers) {
    const calls = days * customer.callsPerDay;
    const quarters = spread(calls, customer.growth, startMs, days);
    await insertEvents(books, eventsOf(customer, quarters));
    events += calls;
  }
  const billingIds = customers.map(({ billingId }) => billingId);
  const made = new Date(startMs);
  const allDays = Array.from({ length: days }, (_, i) => dayOf(startMs + i * DAY_MS));
  await sql.begin(async (tx) => {
    await tx`update workspaces set created_at = ${made} where id = ${workspaceId}`;
    await tx`update api_keys set created_at = ${made} where workspace_id = ${workspaceId}`;
    await tx`update billing_records set created_at = ${made} where id = any(${billingIds})`;
    await markDays(
      tx,
      billingIds.flatMap((billingId) => allDays.map((day) => ({ workspaceId, billingId, day }))),
    );
    await noteUnsettled(tx, billingIds);
  });
  await untilSettled(client, customers, days);
  return events;
}

/** A quarter of an hour, and how many calls it has. */
type Quarter = { startMs: number; calls: number };

/** Spreads calls over the quarter hours of some days, most of them on working days around 14 h UTC; their sum is `calls`. */
function spread(calls: number, growth: number, startMs: number, days: number): Quarter[] {
  const starts = Array.from({ length: (days * DAY_MS) / QUARTER_MS }, (_, i) => startMs + i * QUARTER_MS);
  const weights = starts.map((atMs, i) => {
    const fromBusiest = Math.abs((((atMs % DAY_MS) / DAY_MS + 11 / 12) % 1) - 0.5);
    const ofHour = 0.1 + Math.cos(Math.PI * fromBusiest) ** 4;
    const ofDay = [0, 6].includes(new Date(atMs).getUTCDay()) ? 0.4 : 1;
    // Always the same for the same quarter.
    const uneven = 0.8 + 0.4 * Math.abs(Math.sin((atMs / QUARTER_MS) * 12.9898));
    return ofHour * ofDay * uneven * (1 + (growth * i) / starts.length);
  });
  const sum = weights.reduce((total, one) => total + one, 0);
  let [weighed, given] = [0, 0];
  return starts.map((atMs, i) => {
    weighed += weights[i]!;
    const upTo = i === starts.length - 1 ? calls : Math.round((calls * weighed) / sum);
    const ofQuarter = upTo - given;
    given = upTo;
    return { startMs: atMs, calls: ofQuarter };
  });
}

function* eventsOf(customer: Customer, quarters: Quarter[]): Generator<UsageEvent> {
  const { workspaceId, customerId, billingId, keys } = customer;
  const costMicros = parseCredits(customer.cost)!;
  let sequence = 0;
  for (const { startMs, calls } of quarters) {
    for (let i = 0; i < calls; i++) {
      sequence += 1;
      const timeMs = startMs + Math.floor(((i + 0.5) * QUARTER_MS) / calls);
      const usageName = usageNameOf(customer, sequence);
      yield {
        kind: 'verification',
        id: derivedId('evt', 'made up', billingId, String(sequence)),
        route: `/v2/${usageName}`,
        costMicros,
        usageName,
        timeMs,
        day: dayOf(timeMs),
        keyId: (sequence % ONE_OF_SECOND_KEY === 0 ? (keys[1] ?? keys[0]!) : keys[0]!).id,
        billingId,
        workspaceId,
        customerId,
        usedMicros: sequence * costMicros,
        sequence,
        epoch: EPOCH,
        ...ofOtherKinds,
      };
    }
  }
}

async function insertEvents({ client }: Books, events: Iterable<UsageEvent>): Promise<void> {
  let values: ReturnType<typeof eventRow>[] = [];
  const insert = () =>
    client.insert({ table: 'usage_events', columns: eventColumns, values, format: 'JSONCompactEachRow' });
  for (const event of events) {
    if (values.push(eventRow(event)) < ROWS_AT_ONCE) continue;
    await insert();
    values = [];
  }
  if (values.length > 0) await insert();
}

async function untilSettled(client: Keytally, customers: Customer[], days: number): Promise<void> {
  const until = performance.now() + SETTLE_WITHIN_MS;
  for (const { billingId: bid, externalMeterId, ...customer } of customers) {
    const wanted = formatCredits(usedOn(days, customer));
    while ((await client.billing.getById({ bid })).billing.usedCredits !== wanted) {
      if (performance.now() > until)
        throw new StackError(`${externalMeterId} has used ${wanted}, and its balance does not show it`);
      await sleep(LOOK_EVERY_MS);
    }
  }
}
