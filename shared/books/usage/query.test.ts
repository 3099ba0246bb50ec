import { createClient } from '@clickhouse/client';
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectTestStores } from '../../../tests/helpers/test-stores.ts';
import { connectClickHouse, REQUEST_LIMITS } from '../../stores/clickhouse.ts';
import { usageDayColumns, usageDaysOf } from '../../stores/usage-days.ts';
import { windowAt } from '../../values/calendar.ts';
import { newId } from '../../values/ids.ts';
import { DAY_MS, intervals, periodsOf, QUARTER_MS, startTexts, type Interval } from '../../values/periods.ts';
import { allowWorkspace } from './allowed-workspace.ts';
import { positionOf, readUsage, type Usage } from './query.ts';
import { MOST_ROUTES, usageGroups, type UsageFilters, type UsageGroup } from './sql.ts';

const stores = await connectTestStores();
const books = connectClickHouse(stores.env.CLICKHOUSE_URL!, '', REQUEST_LIMITS);
const client = createClient({ url: stores.env.CLICKHOUSE_URL! });
test.after(async () => {
  await books.close();
  await client.close();
});

/** Quarter and half hours, half an hour of summer time, a change at midnight, days far from those of UTC, and plain ones. */
const ZONES = `UTC Asia/Kathmandu Australia/Lord_Howe America/St_Johns America/Havana Pacific/Kiritimati
  Europe/Berlin`.split(/\s+/);
/** Days around which years and months begin, and clocks of these zones change. */
const DAYS = ['2025-12-31', '2026-02-28', '2026-03-08', '2026-03-29', '2026-04-04', '2026-10-03', '2026-11-01'];
const KEYS = [newId('key'), newId('key')];

/** A made event, in columns of `usage_events`. `record` is a place in a list of billing records, whose first is none. */
type MadeEvent = ValueOf<typeof eventsAround>;

const SOON_MS = 90 * DAY_MS;

function questionsAround(around: string) {
  return fc.record({
    timezone: fc.constantFrom(...ZONES),
    interval: fc.constantFrom<Interval | undefined>(...intervals, undefined),
    // Those that are answered from the sums of days, and all.
    groupBy: fc.oneof(fc.subarray<UsageGroup>(['billing', 'usageName']), fc.subarray([...usageGroups])),
    from: near(around),
    lengthQuarters: fc.constantFrom(3, 96, 3 * 96, 35 * 96),
    midnight: fc.boolean(),
    nowMs: fc.constantFrom(0, DAY_MS, SOON_MS).map((ms) => Date.parse(around) + ms),
    filter: fc.constantFrom('none', 'none', 'none', 'billing', 'usageName', 'key', 'route', 'customer'),
    limit: fc.constantFrom(3, 1_000),
  });
}

const scenes = fc.constantFrom(...DAYS).chain((around) =>
  fc.record({
    early: fc.array(eventsAround(around), { minLength: 30, maxLength: 80 }),
    late: fc.array(eventsAround(around), { maxLength: 8 }),
    asked: fc.array(questionsAround(around), { minLength: 12, maxLength: 12 }),
  }),
);

test('every interval and grouping in every zone has the sums of the events, with late events, corrections and repetitions', async () => {
  await fc.assert(
    fc.asyncProperty(scenes, async ({ early, late, asked }) => {
      const [workspace, other] = [newId('ws'), newId('ws')];
      const records = ['', newId('bill'), newId('bill')];
      await insertEvents(workspace, records, early);
      await sumUp(workspace);
      // Another workspace, whose usage must show nowhere.
      await insertEvents(other, records, early);
      await insertEvents(workspace, records, late);
      await markDays(workspace, records, late);
      const events = [...early, ...late].map((one) => ({ ...one, billing_id: records[one.record]! }));
      for (const question of asked) await compare(workspace, records[1]!, events, question);
    }),
    { numRuns: Number(process.env.USAGE_RUNS ?? 5), seed: Number(process.env.USAGE_SEED ?? 21), endOnFailure: true },
  );
});

test('the largest routes are those of the time that is asked for, not of its whole days', async () => {
  const workspaceId = newId('ws');
  const at = (route: string, time: string, cost_micros: number) => {
    const of = { workspace_id: workspaceId, day: time.slice(0, 10), event_id: newId('evt'), kind: 'verification' };
    return { ...of, key_id: KEYS[0], route, cost_micros, time };
  };
  const costly = Array.from({ length: MOST_ROUTES }, (_, i) => at(`/${i}`, '2026-10-05 01:00:00', 9));
  await client.insert({
    table: 'usage_events',
    values: [...costly, at('/only', '2026-10-05 12:10:00', 1)],
    format: 'JSONEachRow',
  });
  const startMs = Date.parse('2026-10-05T12:00Z');
  const periods = periodsOf({ startMs, endMs: startMs + 4 * QUARTER_MS, timezone: 'UTC', interval: undefined });
  const question = { workspace: allowWorkspace(workspaceId), periods, groupBy: ['route'] as const };
  const rows = await readUsage({ sql: stores.sql, books }, question, { limit: 9, nowMs: startMs });
  assert.equal(rows, [{ period: 0, route: '/only', micros: 1n, events: 1 }]);
});

type Event = MadeEvent & { billing_id: string };
type Question = ValueOf<typeof questionsAround>;
type ValueOf<Make> = Make extends (around: string) => fc.Arbitrary<infer Value> ? Value : never;

async function compare(workspaceId: string, billingId: string, events: Event[], question: Question): Promise<void> {
  const { timezone, interval, groupBy, from, lengthQuarters, midnight, nowMs, limit } = question;
  const startMs = midnight ? windowAt('day', timezone, from).startMs : from;
  const endMs = startMs + lengthQuarters * QUARTER_MS;
  const periods = periodsOf({ startMs, endMs, timezone, interval });
  const workspace = allowWorkspace(workspaceId);
  const filters = filtersOf(question, billingId);
  const wanted = { workspace, periods, groupBy, filters };
  const rows: Usage[] = [];
  // A row of a page is also the place to go on from.
  for (let after; ;) {
    const page = await readUsage({ sql: stores.sql, books }, wanted, { after, limit, nowMs });
    rows.push(...page);
    if (page.length < limit) break;
    after = positionOf(page.at(-1)!, wanted);
  }
  const starts = startTexts(periods);
  const actual = rows.map(({ period, micros, events, ...groups }) => [
    [starts[period], groupBy.map((group) => groups[namesOf[group][0]] ?? '')].join(),
    `${micros} in ${events}`,
  ]);
  assert.equal(actual.map(([key]) => key).length, new Set(actual.map(([key]) => key)).size);
  const expected = expectedOf(events, { startMs, endMs, timezone, interval, groupBy, filters });
  assert.equal(Object.fromEntries(actual), expected, JSON.stringify({ ...question, startMs, endMs }));
}

/** Of a group its field in an answer, and its column. */
const namesOf = {
  billing: ['billingId', 'billing_id'],
  usageName: ['usageName', 'usage_name'],
  key: ['apiKeyId', 'key_id'],
  route: ['route', 'route'],
  customer: ['customerId', 'customer_id'],
} as const;

function filtersOf({ filter }: Question, billingId: string): UsageFilters {
  if (filter === 'billing') return { billingIds: [billingId] };
  if (filter === 'usageName') return { usageName: 'tokens' };
  if (filter === 'key') return { apiKeyId: KEYS[0]! };
  if (filter === 'route') return { route: "';--" };
  return filter === 'customer' ? { customerId: 'cüstomer;"' } : {};
}

type Expected = {
  startMs: number;
  endMs: number;
  timezone: string;
  interval: Interval | undefined;
  groupBy: UsageGroup[];
  filters: UsageFilters;
};

/** The sums of distinct events, with calendars of their own: nothing of the code under test. */
function expectedOf(events: Event[], asked: Expected): Record<string, string> {
  const { startMs, endMs, timezone, interval, groupBy, filters } = asked;
  const zoned = (ms: number) => Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timezone);
  const sums: Record<string, { micros: bigint; events: number }> = {};
  for (const event of events) {
    if (event.kind === 'hold') continue;
    const atMs = event.kind === 'adjustment' ? zonedStart(Temporal.PlainDate.from(event.day), timezone) : event.timeMs;
    if (atMs < startMs || atMs >= endMs) continue;
    const { billingIds = [event.billing_id], ...others } = filters;
    const isWanted =
      billingIds.includes(event.billing_id) &&
      (others.usageName ?? event.usage_name) === event.usage_name &&
      (others.apiKeyId ?? event.key_id) === event.key_id &&
      (others.route ?? event.route) === event.route &&
      (others.customerId ?? event.customer_id) === event.customer_id;
    if (!isWanted) continue;
    const start = interval ? periodStart(zoned(atMs), interval) : startMs;
    const key = [
      zoned(start).toString({ timeZoneName: 'never', smallestUnit: 'second' }),
      groupBy.map((group) => event[namesOf[group][1]]),
    ].join();
    const sum = (sums[key] ??= { micros: 0n, events: 0 });
    sum.micros += BigInt(event.cost_micros);
    if (event.kind === 'verification' || event.kind === 'capture') sum.events += 1;
  }
  return Object.fromEntries(Object.entries(sums).map(([key, one]) => [key, `${one.micros} in ${one.events}`]));
}

function near(day: string): fc.Arbitrary<number> {
  return fc.integer({ min: -2 * 96, max: 2 * 96 }).map((quarters) => Date.parse(day) + quarters * QUARTER_MS);
}

/** Events around a day, with texts that a query or a file could stumble over. */
function eventsAround(day: string) {
  return fc
    .record({
      record: fc.integer({ min: 0, max: 2 }),
      key_id: fc.constantFrom(...KEYS),
      customer_id: fc.constantFrom('', 'cüstomer;"'),
      route: fc.constantFrom('', 'GET /a', '=1+1,', "';--"),
      usage_name: fc.constantFrom('default', 'tokens', '-x;=y'),
      kind: fc.constantFrom('verification', 'verification', 'adjustment', 'capture', 'correction', 'hold'),
      micros: fc.integer({ min: 0, max: 9_000_000_000 }),
      quarterMs: near(day),
      withinMs: fc.constantFrom(0, 1, QUARTER_MS / 2, QUARTER_MS - 1),
    })
    .map(({ micros, quarterMs, withinMs, ...event }) => {
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

async function insertEvents(workspaceId: string, records: string[], events: MadeEvent[]): Promise<void> {
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

async function markDays(workspaceId: string, records: string[], events: MadeEvent[]): Promise<void> {
  const ids = events.map(({ record: place }) => records[place] || workspaceId);
  await stores.sql`
    insert into usage_marks (workspace_id, billing_id, day)
    select distinct ${workspaceId}, id, day
    from unnest(${ids}::text[], ${events.map(({ day }) => day)}::date[]) as made (id, day)
    on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
}

/** Where a period begins by the calendar alone: nothing of the code under test. */
function periodStart(at: Temporal.ZonedDateTime, interval: Interval): number {
  if (interval === 'month') return at.with({ day: 1 }).startOfDay().epochMilliseconds;
  if (interval === 'week') return at.subtract({ days: at.dayOfWeek - 1 }).startOfDay().epochMilliseconds;
  if (interval === 'day') return at.startOfDay().epochMilliseconds;
  const past = (at.minute * 60 + at.second) * 1_000 + at.millisecond;
  const change = at.add({ nanoseconds: 1 }).getTimeZoneTransition('previous')?.epochMilliseconds ?? -Infinity;
  // Where clocks change within an hour, what follows is a period of its own.
  return Math.max(change, at.epochMilliseconds - past);
}

function zonedStart(date: Temporal.PlainDate, timezone: string): number {
  return date.toZonedDateTime(timezone).startOfDay().epochMilliseconds;
}

async function sumUp(workspaceId: string): Promise<void> {
  const events = 'usage_events final where workspace_id = {workspaceId:String}';
  const query = `insert into usage_days (${usageDayColumns}) ${usageDaysOf(events)}`;
  await client.command({ query, query_params: { workspaceId } });
}
