import { createClient } from '@clickhouse/client';
import {
  array,
  assert as check,
  asyncProperty,
  boolean,
  constantFrom,
  oneof,
  record,
  subarray,
  type Arbitrary,
} from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectTestStores } from '../../../tests/helpers/test-stores.ts';
import { connectClickHouse, REQUEST_LIMITS } from '../../stores/clickhouse.ts';
import { usageDayColumns, usageDaysOf } from '../../stores/usage-days.ts';
import { windowAt } from '../../values/calendar.ts';
import { newId } from '../../values/ids.ts';
import { DAY_MS, intervals, periodsOf, QUARTER_MS, startTexts, type Interval } from '../../values/periods.ts';
import { allowWorkspace } from './allowed-workspace.ts';
import {
  DAYS,
  eventsAround,
  insertEvents,
  KEYS,
  markDays,
  near,
  periodStart,
  zonedStart,
  ZONES,
  type MadeEvent,
} from './helpers/made-events.ts';
import { positionOf, readUsage, type Usage } from './query.ts';
import { usageGroups, type UsageFilters, type UsageGroup } from './sql.ts';

const stores = await connectTestStores();
const books = connectClickHouse(stores.env.CLICKHOUSE_URL!, '', REQUEST_LIMITS);
const client = createClient({ url: stores.env.CLICKHOUSE_URL! });
test.after(async () => {
  await books.close();
  await client.close();
});

const SOON_MS = 90 * DAY_MS;

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
      const [workspace, other] = [newId('ws'), newId('ws')];
      const records = ['', newId('bill'), newId('bill')];
      await insertEvents(client, workspace, records, early);
      await sumUp(workspace);
      // Another workspace, whose usage must show nowhere.
      await insertEvents(client, other, records, early);
      await insertEvents(client, workspace, records, late);
      await markDays(stores.sql, workspace, records, late);
      const events = [...early, ...late].map((one) => ({ ...one, billing_id: records[one.record]! }));
      for (const question of asked) await compare(workspace, records[1]!, events, question);
    }),
    { numRuns: Number(process.env.USAGE_RUNS ?? 5), seed: Number(process.env.USAGE_SEED ?? 21), endOnFailure: true },
  );
});

type Event = MadeEvent & { billing_id: string };
type Question = ReturnType<typeof questionsAround> extends Arbitrary<infer Value> ? Value : never;

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
const columnOf = {
  billing: 'billing_id',
  usageName: 'usage_name',
  key: 'key_id',
  route: 'route',
  customer: 'customer_id',
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
      groupBy.map((group) => event[columnOf[group]]),
    ].join();
    const sum = (sums[key] ??= { micros: 0n, events: 0 });
    sum.micros += BigInt(event.cost_micros);
    if (event.kind === 'verification' || event.kind === 'capture') sum.events += 1;
  }
  return Object.fromEntries(Object.entries(sums).map(([key, one]) => [key, `${one.micros} in ${one.events}`]));
}

async function sumUp(workspaceId: string): Promise<void> {
  const events = 'usage_events final where workspace_id = {workspaceId:String}';
  const query = `insert into usage_days (${usageDayColumns}) ${usageDaysOf(events)}`;
  await client.command({ query, query_params: { workspaceId } });
}
