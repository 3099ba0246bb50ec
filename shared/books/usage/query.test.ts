import { createClient, type ClickHouseClient } from '@clickhouse/client';
import {
  array,
  assert as check,
  asyncProperty,
  boolean,
  constantFrom,
  integer,
  oneof,
  record,
  subarray,
  type Arbitrary,
} from 'fast-check';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, type World } from '../../../tests/helpers/world.ts';
import { connectClickHouse, REQUEST_LIMITS, type Books } from '../../stores/clickhouse.ts';
import { usageDayColumns, usageDaysOf } from '../../stores/usage-days.ts';
import { firstInstantOf, windowAt } from '../../values/calendar.ts';
import { newId } from '../../values/ids.ts';
import { DAY_MS, intervals, periodsOf, startTexts, type Interval } from '../../values/periods.ts';
import { allowWorkspace } from './allowed-workspace.ts';
import { positionOf, readUsage, type Usage } from './query.ts';
import { usageGroups, type UsageFilters, type UsageGroup } from './sql.ts';

const test = suite('usage-query');
let world: World;
let books: Books;
let client: ClickHouseClient;
test.before(async () => {
  world = await makeWorld([]);
  books = connectClickHouse(world.env.CLICKHOUSE_URL!, '', REQUEST_LIMITS);
  client = createClient({ url: world.env.CLICKHOUSE_URL! });
});
test.after(async () => {
  await books?.close();
  await client?.close();
  await world?.stop();
});

// Half and quarter hours, half an hour of summer time, a change at midnight, a day's distance to UTC, and plain ones.
const ZONES = [
  'UTC',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'America/St_Johns',
  'America/Havana',
  'Pacific/Kiritimati',
  'Europe/Berlin',
];
// Days around which something changes: years, months, summer time of these zones.
const DAYS = ['2026-01-01', '2026-03-01', '2026-03-29', '2026-04-05', '2026-10-04', '2026-11-01'];
const SOON_MS = 90 * DAY_MS;

type Event = {
  eventId: string;
  billingId: string;
  keyId: string;
  customerId: string;
  route: string;
  usageName: string;
  kind: 'verification' | 'adjustment' | 'capture' | 'correction' | 'hold';
  micros: number;
  timeMs: number;
  day: string;
};

const RECORDS = ['', 'r1', 'r2'];
const near = (day: string) =>
  integer({ min: -2 * 96, max: 2 * 96 }).map((quarters) => Date.parse(day) + quarters * 900_000);

function eventsAround(around: string) {
  const one = record({
    billing: integer({ min: 0, max: RECORDS.length - 1 }),
    key: constantFrom('key_a', 'key_b'),
    customer: constantFrom('', 'cüstomer'),
    route: constantFrom('', 'GET /a', "';--"),
    usageName: constantFrom('default', 'tokens'),
    kind: constantFrom<Event['kind']>('verification', 'verification', 'adjustment', 'capture', 'correction', 'hold'),
    micros: integer({ min: 0, max: 9_000_000_000 }),
    quarterMs: near(around),
    withinMs: constantFrom(0, 1, 450_000, 899_999),
  });
  return one.map(({ billing, key, customer, micros, quarterMs, withinMs, kind, ...rest }): Event => {
    const timeMs = quarterMs + withinMs;
    const adjusts = kind === 'adjustment';
    return {
      ...rest,
      kind,
      eventId: newId('evt'),
      // What is adjusted is a record.
      billingId: RECORDS[adjusts ? Math.max(1, billing) : billing]!,
      keyId: adjusts ? '' : key,
      customerId: adjusts ? '' : customer,
      route: adjusts ? '' : rest.route,
      micros: adjusts || kind === 'correction' ? -micros : kind === 'hold' ? 0 : micros,
      timeMs,
      // A correction is booked on a day that need not be its own.
      day: new Date(adjusts ? timeMs - DAY_MS : timeMs).toISOString().slice(0, 10),
    };
  });
}

function questionsAround(around: string) {
  return record({
    timezone: constantFrom(...ZONES),
    interval: constantFrom<Interval | undefined>(...intervals, undefined),
    // Those that are answered from the sums of days, and all.
    groupBy: oneof(subarray<UsageGroup>(['billing', 'usageName']), subarray([...usageGroups])),
    from: near(around),
    lengthQuarters: constantFrom(3, 96, 3 * 96, 35 * 96),
    midnight: boolean(),
    nowMs: constantFrom(0, DAY_MS, SOON_MS).map((ms) => Date.parse(around) + ms),
    filter: constantFrom('none', 'none', 'none', 'billing', 'usageName', 'key', 'route', 'customer'),
    limit: constantFrom(3, 1_000),
  });
}

const scenes = constantFrom(...DAYS).chain((around) =>
  record({
    early: array(eventsAround(around), { minLength: 30, maxLength: 80 }),
    late: array(eventsAround(around), { maxLength: 8 }),
    asked: array(questionsAround(around), { minLength: 12, maxLength: 12 }),
  }),
);

test('every interval and grouping in every zone has the sums of the events, with late events, corrections and repetitions', async () => {
  await check(
    asyncProperty(scenes, async ({ early, late, asked }) => {
      const workspace = newId('ws');
      const named = (events: Event[]) =>
        events.map((one) => ({ ...one, billingId: one.billingId && workspace + one.billingId }));
      const [first, second] = [named(early), named(late)];
      await insert(workspace, [...first, ...first.slice(0, 5)]);
      await sumUp(workspace);
      // Another workspace, whose usage must show nowhere.
      await insert(
        newId('ws'),
        first.map((one) => ({ ...one, eventId: newId('evt') })),
      );
      await insert(workspace, second);
      await mark(workspace, second);
      for (const question of asked) await compare(workspace, [...first, ...second], question);
    }),
    { numRuns: Number(process.env.USAGE_RUNS ?? 12), seed: Number(process.env.USAGE_SEED ?? 21), endOnFailure: true },
  );
});

test.run();

type Question = ReturnType<typeof questionsAround> extends Arbitrary<infer Value> ? Value : never;

async function compare(workspaceId: string, events: Event[], question: Question): Promise<void> {
  const { timezone, interval, groupBy, from, lengthQuarters, midnight, nowMs, limit } = question;
  const startMs = midnight ? windowAt('day', timezone, from).startMs : from;
  const endMs = startMs + lengthQuarters * 900_000;
  const periods = periodsOf({ startMs, endMs, timezone, interval });
  const workspace = allowWorkspace(workspaceId);
  const filters = filtersOf(question, workspaceId);
  const wanted = { workspace, periods, groupBy, filters };
  const rows: Usage[] = [];
  // A row of a page is also the place to go on from.
  for (let after; ;) {
    const page = await readUsage({ sql: world.sql, books }, wanted, { after, limit, nowMs });
    rows.push(...page);
    if (page.length < limit) break;
    after = positionOf(page.at(-1)!, wanted);
  }
  const starts = startTexts(periods);
  const actual = rows.map(({ period, micros, events, ...groups }) => [
    [starts[period], groupBy.map((group) => groups[fieldOf[group]] ?? '')].join(),
    `${micros} in ${events}`,
  ]);
  assert.equal(actual.map(([key]) => key).length, new Set(actual.map(([key]) => key)).size);
  const expected = expectedOf(events, { startMs, endMs, timezone, interval, groupBy, filters });
  assert.equal(Object.fromEntries(actual), expected, JSON.stringify({ ...question, startMs, endMs }));
}

const fieldOf = {
  billing: 'billingId',
  usageName: 'usageName',
  key: 'apiKeyId',
  route: 'route',
  customer: 'customerId',
} as const;

function filtersOf({ filter }: Question, workspaceId: string): UsageFilters {
  if (filter === 'billing') return { billingIds: [`${workspaceId}r1`] };
  if (filter === 'usageName') return { usageName: 'tokens' };
  if (filter === 'key') return { apiKeyId: 'key_a' };
  if (filter === 'route') return { route: "';--" };
  return filter === 'customer' ? { customerId: 'cüstomer' } : {};
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
  const sums: Record<string, { micros: bigint; events: number }> = {};
  for (const event of events) {
    if (event.kind === 'hold') continue;
    const atMs =
      event.kind === 'adjustment'
        ? firstInstantOf(Temporal.PlainDate.from(event.day).toPlainDateTime(), timezone)
        : event.timeMs;
    if (atMs < startMs || atMs >= endMs) continue;
    const { billingIds = [event.billingId], ...others } = filters;
    const isWanted =
      billingIds.includes(event.billingId) &&
      (others.usageName ?? event.usageName) === event.usageName &&
      (others.apiKeyId ?? event.keyId) === event.keyId &&
      (others.route ?? event.route) === event.route &&
      (others.customerId ?? event.customerId) === event.customerId;
    if (!isWanted) continue;
    const start = Math.max(startMs, startOf(atMs, timezone, interval) ?? startMs);
    const zoned = Temporal.Instant.fromEpochMilliseconds(start).toZonedDateTimeISO(timezone);
    const groups = { ...event, apiKeyId: event.keyId };
    const key = [
      zoned.toString({ timeZoneName: 'never', smallestUnit: 'second' }),
      groupBy.map((group) => groups[fieldOf[group]]),
    ].join();
    const sum = (sums[key] ??= { micros: 0n, events: 0 });
    sum.micros += BigInt(event.micros);
    if (event.kind === 'verification' || event.kind === 'capture') sum.events += 1;
  }
  return Object.fromEntries(Object.entries(sums).map(([key, one]) => [key, `${one.micros} in ${one.events}`]));
}

function startOf(atMs: number, timezone: string, interval: Interval | undefined): number | undefined {
  if (interval === undefined) return undefined;
  if (interval !== 'hour') return windowAt(interval, timezone, atMs).startMs;
  const zoned = Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(timezone);
  const change = zoned.add({ nanoseconds: 1 }).getTimeZoneTransition('previous')?.epochMilliseconds ?? -Infinity;
  const { minute, second, millisecond } = zoned;
  return Math.max(change, atMs - (minute * 60 + second) * 1_000 - millisecond);
}

async function insert(workspaceId: string, events: Event[]): Promise<void> {
  const values = events.map((event) => ({
    workspace_id: workspaceId,
    customer_id: event.customerId,
    billing_id: event.billingId,
    day: event.day,
    event_id: event.eventId,
    kind: event.kind,
    key_id: event.keyId,
    usage_name: event.usageName,
    cost_micros: String(event.micros),
    route: event.route,
    time: new Date(event.timeMs).toISOString().slice(0, 23).replace('T', ' '),
  }));
  if (values.length > 0) await client.insert({ table: 'usage_events', values, format: 'JSONEachRow' });
}

async function sumUp(workspaceId: string): Promise<void> {
  const events = 'usage_events final where workspace_id = {workspaceId:String}';
  const query = `insert into usage_days (${usageDayColumns}) ${usageDaysOf(events)}`;
  await client.command({ query, query_params: { workspaceId } });
}

async function mark(workspaceId: string, events: Event[]): Promise<void> {
  for (const { billingId, day } of events)
    await world.sql`
      insert into usage_marks (workspace_id, billing_id, day) values (${workspaceId}, ${billingId || workspaceId}, ${day})
      on conflict do nothing`;
}
