import { externalIdOf } from '../../stores/meters.ts';
import { eachOf, type Query } from '../../stores/postgres.ts';
import { HOUR_MS, meterKind, type MeterKind } from '../../values/meter-kinds.ts';
import { periodsOf } from '../../values/periods.ts';
import type { AllowedWorkspace } from '../usage/allowed-workspace.ts';
import { positionOf, readUsage, type UsagePosition, type UsageStores } from '../usage/query.ts';
import type { UsageQuestion } from '../usage/sql.ts';

// As many rows as are planned in one transaction.
const HOURS_AT_ONCE = 2_000;

/** Where usage is sent, as far as it says what is sent. */
export type MeterDestination = {
  id: string;
  teamId: string;
  workspaceId: string;
  kind: MeterKind;
  /** By usage name; null: it is not sent. */
  eventNames: Record<string, string | null>;
  measure: 'credits' | 'events';
  unitMicros: number;
  startsAt: Date;
};

/** What of an hour is asked for: of these records, or of all. */
type Hours = { startMs: number; endMs: number; billingIds?: readonly string[]; nowMs: number };

/** The usage of a record and a usage name in an hour. */
export type HourUsage = { billingId: string; usageName: string; hourMs: number; micros: number; events: number };

/** An event for a destination. `quantity` is what is sent, in micro-units. */
export type PlannedEvent = HourUsage & {
  number: number;
  quantity: number;
  externalId: string;
  eventName: string;
  state: 'WAITING' | 'CARRIED' | 'LEFT_OUT';
};

/** Reads the usage of metered keys in some hours, in the order of the hours, page by page. */
export async function* readHours(
  stores: UsageStores,
  workspace: AllowedWorkspace,
  { startMs, endMs, billingIds, nowMs }: Hours,
): AsyncGenerator<HourUsage[]> {
  if (startMs >= endMs) return;
  const question: UsageQuestion = {
    workspace,
    periods: periodsOf({ startMs, endMs, timezone: 'UTC', interval: 'hour' }),
    groupBy: ['billing', 'usageName'],
    ...(billingIds && { filters: { billingIds } }),
  };
  for (let after: UsagePosition | undefined; ;) {
    const rows = await readUsage(stores, question, { after, limit: HOURS_AT_ONCE, nowMs });
    yield rows.flatMap(({ billingId, usageName = '', period, micros, events }) =>
      billingId === undefined
        ? []
        : [{ billingId, usageName, hourMs: startMs + period * HOUR_MS, micros: Number(micros), events }],
    );
    if (rows.length < HOURS_AT_ONCE) return;
    after = positionOf(rows.at(-1)!, question);
  }
}

/** What was planned of an hour before, and what is carried on, by the names below; without them an hour is planned as if it were new. */
export type Before = { planned: Map<string, Planned>; rests: Map<string, number> };
/** The names are those of the last event. */
type Planned = {
  number: number;
  micros: number;
  events: number;
  externalId: string;
  eventName: string;
  isLeftOut: boolean;
};

/** Reads what was planned of these hours before. */
export async function readBefore(sql: Query, { id }: MeterDestination, usage: HourUsage[]): Promise<Before> {
  const [billingIds, names] = [usage.map((one) => one.billingId), usage.map((one) => one.usageName)];
  const planned = await sql<(Planned & HourUsage)[]>`
    select e.billing_id, e.usage_name, (extract(epoch from e.hour) * 1000)::bigint as hour_ms, count(*)::int as number,
           sum(e.micros)::bigint as micros, sum(e.events)::bigint as events,
           (array_agg(e.external_id order by e.number desc))[1] as external_id,
           (array_agg(e.event_name order by e.number desc))[1] as event_name,
           (array_agg(e.state order by e.number desc))[1] = 'LEFT_OUT' as is_left_out
    from unnest(${billingIds}::text[], ${usage.map(({ hourMs }) => new Date(hourMs).toISOString())}::timestamptz[], ${names}::text[])
      as asked (billing_id, hour, usage_name)
    join meter_events e on e.destination_id = ${id} and e.billing_id = asked.billing_id and e.hour = asked.hour
      and e.usage_name = asked.usage_name
    group by 1, 2, 3`;
  const rests = await sql<{ billingId: string; usageName: string; micros: number }[]>`
    select r.billing_id, r.usage_name, r.micros
    from (select distinct * from unnest(${billingIds}::text[], ${names}::text[])) as asked (billing_id, usage_name)
    join meter_rests r on r.destination_id = ${id} and r.billing_id = asked.billing_id and r.usage_name = asked.usage_name`;
  return {
    planned: new Map(planned.map((one) => [hourOf(one), one])),
    rests: new Map(rests.map((one) => [seriesOf(one), one.micros])),
  };
}

/**
 * Plans the events of some hours: of each what the books have more, or less, than was planned before. A destination of whole numbers
 * gets the whole units of what is due, and what is left, or less than nothing, is carried on: `before.rests` is changed so.
 */
export async function planEvents(
  sql: Query,
  { id, kind, eventNames, measure, unitMicros }: MeterDestination,
  usage: HourUsage[],
  { planned, rests }: Before,
): Promise<PlannedEvent[]> {
  const ids = [...new Set(usage.map(({ billingId }) => billingId))];
  const records = await sql<{ id: string; externalId: string | null }[]>`
    select b.id, ${externalIdOf(sql, id)} as external_id from billing_records b where b.id = any(${eachOf(sql, ids)})`;
  const externalIds = new Map(records.map((record) => [record.id, record.externalId]));
  const { takesWhole = false } = meterKind(kind);
  const namesOf = (billingId: string, usageName: string) => {
    const externalId = externalIds.get(billingId) ?? null;
    const eventName = Object.hasOwn(eventNames, usageName) ? eventNames[usageName]! : usageName || 'usage';
    const isLeftOut = externalId === null || eventName === null;
    return { externalId: externalId ?? '', eventName: eventName ?? '', isLeftOut };
  };
  return usage.flatMap((one): PlannedEvent[] => {
    const before = planned.get(hourOf(one));
    const [micros, events] = [one.micros - (before?.micros ?? 0), one.events - (before?.events ?? 0)];
    if (micros === 0 && events === 0) return [];
    const { usageName } = one;
    const event = { ...one, micros, events, number: before?.number ?? 0, quantity: 0 };
    // A correction goes to where what it corrects went.
    const { externalId, eventName, isLeftOut } = before ?? namesOf(one.billingId, usageName);
    if (isLeftOut) return [{ ...event, externalId, eventName, state: 'LEFT_OUT' }];
    const measured = measure === 'events' ? events * 1_000_000 : micros;
    if (!takesWhole) return [{ ...event, quantity: measured, externalId, eventName, state: 'WAITING' }];
    const due = (rests.get(seriesOf(one)) ?? 0) + measured;
    const quantity = due > 0 ? due - (due % unitMicros) : 0;
    rests.set(seriesOf(one), due - quantity);
    return [{ ...event, quantity, externalId, eventName, state: quantity === 0 ? 'CARRIED' : 'WAITING' }];
  });
}

function hourOf({ billingId, hourMs, usageName }: Omit<HourUsage, 'micros' | 'events'>): string {
  return `${billingId} ${hourMs} ${usageName}`;
}

/** The name of what is carried on: of a record and a usage name. */
export function seriesOf({ billingId, usageName }: Pick<HourUsage, 'billingId' | 'usageName'>): string {
  return `${billingId} ${usageName}`;
}
