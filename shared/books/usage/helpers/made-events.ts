import type { ClickHouseClient } from '@clickhouse/client';
import { constantFrom, integer, record, type Arbitrary } from 'fast-check';
import type { Sql } from '../../../stores/postgres.ts';
import { newId } from '../../../values/ids.ts';
import { DAY_MS, QUARTER_MS, type Interval } from '../../../values/periods.ts';

/** Quarter and half hours, half an hour of summer time, a change at midnight, days far from those of UTC, and plain ones. */
export const ZONES = [
  'UTC',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'America/St_Johns',
  'America/Havana',
  'Pacific/Kiritimati',
  'Europe/Berlin',
];
/** Days around which years and months begin, and clocks of these zones change. */
export const DAYS = ['2025-12-31', '2026-02-28', '2026-03-08', '2026-03-29', '2026-04-04', '2026-10-03', '2026-11-01'];
/** The keys of made events. */
export const KEYS = [newId('key'), newId('key')];

/** A made event, in columns of `usage_events`. `record` is a place in a list of billing records, whose first is none. */
export type MadeEvent = {
  record: number;
  key_id: string;
  customer_id: string;
  route: string;
  usage_name: string;
  kind: string;
  cost_micros: number;
  timeMs: number;
  day: string;
};

/** Quarter hours at most two days from a day. */
export function near(day: string): Arbitrary<number> {
  return integer({ min: -2 * 96, max: 2 * 96 }).map((quarters) => Date.parse(day) + quarters * QUARTER_MS);
}

/** Events around a day, with texts that a query or a file could stumble over. */
export function eventsAround(day: string): Arbitrary<MadeEvent> {
  return record({
    record: integer({ min: 0, max: 2 }),
    key_id: constantFrom(...KEYS),
    customer_id: constantFrom('', 'cüstomer;"'),
    route: constantFrom('', 'GET /a', '=1+1,', "';--"),
    usage_name: constantFrom('default', 'tokens', '-x;=y'),
    kind: constantFrom('verification', 'verification', 'adjustment', 'capture', 'correction', 'hold'),
    micros: integer({ min: 0, max: 9_000_000_000 }),
    quarterMs: near(day),
    withinMs: constantFrom(0, 1, QUARTER_MS / 2, QUARTER_MS - 1),
  }).map(({ micros, quarterMs, withinMs, ...event }) => {
    const timeMs = quarterMs + withinMs;
    const adjusts = event.kind === 'adjustment';
    return {
      ...event,
      // What is adjusted is a record.
      ...(adjusts && { record: Math.max(1, event.record), key_id: '', customer_id: '', route: '' }),
      cost_micros: event.kind === 'hold' ? 0 : adjusts || event.kind === 'correction' ? -micros : micros,
      timeMs,
      // An adjustment is booked on a day that need not be its own.
      day: new Date(adjusts ? timeMs - DAY_MS : timeMs).toISOString().slice(0, 10),
    };
  });
}

/** Inserts events of a workspace and its records, some of them twice. */
export async function insertEvents(
  client: ClickHouseClient,
  workspaceId: string,
  records: string[],
  events: MadeEvent[],
): Promise<void> {
  const values = events.map(({ record: place, timeMs, ...event }) => ({
    ...event,
    workspace_id: workspaceId,
    billing_id: records[place],
    event_id: newId('evt'),
    cost_micros: String(event.cost_micros),
    time: new Date(timeMs).toISOString().slice(0, 23).replace('T', ' '),
  }));
  if (values.length === 0) return;
  await client.insert({ table: 'usage_events', values: [...values, ...values.slice(0, 5)], format: 'JSONEachRow' });
}

/** Marks the days of events as the consumer does. */
export async function markDays(sql: Sql, workspaceId: string, records: string[], events: MadeEvent[]): Promise<void> {
  const ids = events.map(({ record: place }) => records[place] || workspaceId);
  await sql`
    insert into usage_marks (workspace_id, billing_id, day)
    select distinct ${workspaceId}, id, day
    from unnest(${ids}::text[], ${events.map(({ day }) => day)}::date[]) as made (id, day)
    on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
}

/** Where a period begins by the calendar alone: nothing of the code under test. */
export function periodStart(at: Temporal.ZonedDateTime, interval: Interval): number {
  if (interval === 'month') return at.with({ day: 1 }).startOfDay().epochMilliseconds;
  if (interval === 'week') return at.subtract({ days: at.dayOfWeek - 1 }).startOfDay().epochMilliseconds;
  if (interval === 'day') return at.startOfDay().epochMilliseconds;
  const past = (at.minute * 60 + at.second) * 1_000 + at.millisecond;
  const change = at.add({ nanoseconds: 1 }).getTimeZoneTransition('previous')?.epochMilliseconds ?? -Infinity;
  // Where clocks change within an hour, what follows is a period of its own.
  return Math.max(change, at.epochMilliseconds - past);
}

/** The first instant of a day in a zone, by the calendar alone. */
export function zonedStart(date: Temporal.PlainDate, timezone: string): number {
  return date.toZonedDateTime(timezone).startOfDay().epochMilliseconds;
}
