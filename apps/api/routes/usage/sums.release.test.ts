import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { array, assert as check, asyncProperty, boolean, constantFrom, record, type Arbitrary } from 'fast-check';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { rollUp } from '../../../consumer/jobs/rollup.ts';
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
} from '../../../../shared/books/usage/helpers/made-events.ts';
import { connectClickHouse, type Books } from '../../../../shared/stores/clickhouse.ts';
import { QUARTER_MS } from '../../../../shared/values/periods.ts';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';

const test = suite('usage sums');
let world: World;
let books: Books;
let client: ClickHouseClient;
test.before(async () => {
  world = await makeWorld();
  books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  client = createClient({ url: world.env.CLICKHOUSE_URL! });
});
test.after(async () => {
  await books?.close();
  await client?.close();
  await world?.stop();
});

// Today's sums are not stored yet.
const today = new Date().toISOString().slice(0, 10);
const GROUPS = ['billing', 'usageName', 'key', 'route', 'customer'] as const;
type Group = (typeof GROUPS)[number];
const INTERVALS = ['hour', 'day', 'week', 'month'] as const;
/** Every choice of groups. */
const GROUPINGS = Array.from({ length: 2 ** GROUPS.length - 1 }, (_, i) =>
  GROUPS.filter((_group, place) => ((i + 1) >> place) % 2 === 1),
);
// Around each day, every zone is asked with every interval.
const QUESTIONS = ZONES.length * INTERVALS.length;
const ALL_DAYS = [...DAYS, today];

function questionsAround(around: string) {
  return record({
    startMs: near(around),
    quarters: constantFrom(3, 96, 3 * 96, 40 * 96),
    asDays: boolean(),
    filter: constantFrom('none', 'none', 'none', 'billingId', 'usageName', 'apiKeyId', 'route', 'customerId'),
    form: constantFrom('json', 'json', 'csv', 'record'),
    limit: constantFrom(17, 1_000),
  });
}
type Asked = ReturnType<typeof questionsAround> extends Arbitrary<infer Value> ? Value : never;
type Question = Asked & ReturnType<typeof combination>;

/** All zones and intervals come together, as all groupings and intervals do. */
function combination(n: number) {
  const [timezone, interval] = [ZONES[n % ZONES.length]!, INTERVALS[n % INTERVALS.length]!];
  return { timezone, interval, groupBy: GROUPINGS[Math.floor(n / INTERVALS.length) % GROUPINGS.length]! };
}

function scenesAround(around: string) {
  return record({
    early: array(eventsAround(around), { minLength: 30, maxLength: 80 }),
    late: array(eventsAround(around), { minLength: 1, maxLength: 8 }),
    asked: array(questionsAround(around), { minLength: QUESTIONS, maxLength: QUESTIONS }),
  });
}

for (const [i, day] of ALL_DAYS.entries())
  test(`around ${day}, answers in every form, zone and interval are the sums of the events in the books, late ones and corrections too`, async () => {
    const numRuns = Number(process.env.USAGE_RUNS ?? 1);
    const seed = Number(process.env.USAGE_SEED ?? 33) + i;
    await check(
      asyncProperty(scenesAround(day), async ({ early, late, asked }) => {
        const { workspaceId, records } = await newWorkspace();
        await book(workspaceId, records, early);
        await rollUp({ sql: world.sql, books }, Date.now(), new AbortController().signal);
        await book(workspaceId, records, late);
        const events = await eventsOf(workspaceId);
        for (const [n, question] of asked.entries())
          await compare(workspaceId, records, events, { ...question, ...combination(i * QUESTIONS + n) });
      }),
      { numRuns, seed, endOnFailure: true },
    );
  });

test('all days together ask for every grouping with every interval', () => {
  const asked = Array.from({ length: ALL_DAYS.length * QUESTIONS }, (_, n) => combination(n));
  const all = new Set(asked.map(({ groupBy, interval }) => `${groupBy.join()} ${interval}`));
  assert.is(all.size, (2 ** GROUPS.length - 1) * INTERVALS.length);
});

test.run();

type Row = Record<string, string>;

async function compare(workspaceId: string, records: string[], events: Row[], question: Question): Promise<void> {
  const { timezone, interval, groupBy, filter, form, asDays, startMs: givenMs, quarters } = question;
  const zoned = (ms: number) => Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timezone);
  const first = zoned(givenMs).toPlainDate();
  const last = zoned(givenMs + quarters * QUARTER_MS).toPlainDate();
  const startMs = asDays ? zonedStart(first, timezone) : givenMs;
  const endMs = asDays ? zonedStart(last.add({ days: 1 }), timezone) : givenMs + quarters * QUARTER_MS;
  const filters: Row = form === 'record' ? { billingId: records[1]! } : filterOf(filter, records);
  const given = {
    timezone,
    interval,
    groupBy: groupBy.join(),
    from: asDays ? first.toString() : new Date(startMs).toISOString(),
    to: asDays ? last.toString() : new Date(endMs).toISOString(),
  };
  const expected: Record<string, [bigint, number]> = {};
  for (const event of events) {
    const atMs =
      event.kind === 'adjustment'
        ? zonedStart(Temporal.PlainDate.from(event.day!), timezone)
        : Date.parse(`${event.time!.replace(' ', 'T')}Z`);
    if (event.kind === 'hold' || atMs < startMs || atMs >= endMs) continue;
    if (Object.entries(filters).some(([name, value]) => event[columns[name]!] !== value)) continue;
    const startedMs = Math.max(startMs, periodStart(zoned(atMs), interval));
    const start = zoned(startedMs).toString({ timeZoneName: 'never', smallestUnit: 'second' });
    const sum = (expected[[start, ...groupBy.map((key) => event[columns[fieldOf[key]]!])].join('|')] ??= [0n, 0]);
    sum[0] += BigInt(event.cost_micros!);
    if (event.kind === 'verification' || event.kind === 'capture') sum[1] += 1;
  }
  const rows = await read(workspaceId, { ...given, ...filters }, question);
  const found = rows.map((row): [string, string[]] => [
    [row.start, ...groupBy.map((key) => row[fieldOf[key]] ?? '')].join('|'),
    [row.totalBillingUsage!, String(row.events)],
  ]);
  const wanted = Object.entries(expected).map(([key, [micros, count]]) => [key, [asText(micros), String(count)]]);
  assert.is(new Set(found.map(([key]) => key)).size, found.length, 'no row comes twice');
  assert.equal(Object.fromEntries(found), Object.fromEntries(wanted), JSON.stringify({ question, given, filters }));
}

const columns: Record<string, string> = {
  billingId: 'billing_id',
  usageName: 'usage_name',
  apiKeyId: 'key_id',
  route: 'route',
  customerId: 'customer_id',
};
const fieldOf: Record<Group, string> = {
  billing: 'billingId',
  usageName: 'usageName',
  key: 'apiKeyId',
  route: 'route',
  customer: 'customerId',
};

function filterOf(filter: Question['filter'], records: string[]): Row {
  const values = {
    billingId: records[1]!,
    usageName: 'tokens',
    apiKeyId: KEYS[0]!,
    route: '=1+1,',
    customerId: 'cüstomer;"',
  };
  return filter === 'none' ? {} : { [filter]: values[filter] };
}

function asText(micros: bigint): string {
  const digits = String(micros < 0n ? -micros : micros).padStart(7, '0');
  const fraction = digits.slice(-6).replace(/0+$/, '');
  return `${micros < 0n ? '-' : ''}${digits.slice(0, -6)}${fraction && `.${fraction}`}`;
}

async function read(workspaceId: string, given: Row, { form, limit }: Question): Promise<Row[]> {
  const get = async (path: string, query: Row) => {
    const answer = await world.call('get', `${path}?${new URLSearchParams(query).toString()}`);
    assert.is(answer.status, 200, answer.text);
    return answer;
  };
  if (form === 'record') {
    const { billingId, ...query } = given;
    return (await get(`/api/v1/usage/${billingId}`, query)).body.data;
  }
  if (form === 'csv') return readCsv((await get('/api/v1/usage', { ...given, workspaceId, format: 'csv' })).text);
  const rows: Row[] = [];
  for (let cursor: Row = {}; ;) {
    const { data, nextCursor } = (
      await get('/api/v1/usage', { ...given, workspaceId, limit: String(limit), ...cursor })
    ).body;
    rows.push(...data);
    if (nextCursor === undefined) return rows;
    cursor = { cursor: nextCursor };
  }
}

/** Rows of a file whose texts all stand in quotes, and hold no line break. Texts lose the apostrophes that disarm them. */
function readCsv(text: string): Row[] {
  const [names = [], ...rows] = text
    .trimEnd()
    .split('\r\n')
    .map((line) => [...line.matchAll(/"((?:[^"]|"")*)"|[^,]+/g)].map(([all, quoted]) => unguarded(quoted ?? all)));
  return rows.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]!])));
}

function unguarded(text: string): string {
  return text.replaceAll('""', '"').replaceAll(/(^|;)'([=-])/g, '$1$2');
}

async function newWorkspace() {
  const { body } = await world.call('post', '/api/v1/workspace', { name: 'w' });
  const workspaceId = body.workspace.id as string;
  const make = async (externalMeterId: string) =>
    (await world.call('post', '/api/v1/customer-billing', { workspaceId, externalMeterId })).body.billing.id as string;
  return { workspaceId, records: ['', await make('a'), await make('b')] };
}

async function book(workspaceId: string, records: string[], events: MadeEvent[]): Promise<void> {
  await insertEvents(client, workspaceId, records, events);
  await markDays(world.sql, workspaceId, records, events);
}

async function eventsOf(workspaceId: string): Promise<Row[]> {
  const result = await client.query({
    query: `
      select distinct event_id, kind, day, time, billing_id, key_id, customer_id, route, usage_name, cost_micros
      from usage_events where workspace_id = {workspaceId:String}`,
    query_params: { workspaceId },
    format: 'JSONEachRow',
  });
  return result.json<Row>();
}
