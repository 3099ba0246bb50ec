import { createClient, type ClickHouseClient } from '@clickhouse/client';
import {
  array,
  assert as check,
  asyncProperty,
  boolean,
  constantFrom,
  record,
  subarray,
  type Arbitrary,
} from 'fast-check';
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
function questionsAround(around: string) {
  return record({
    timezone: constantFrom(...ZONES),
    interval: constantFrom('hour', 'day', 'week', 'month'),
    groupBy: subarray([...GROUPS], { minLength: 1 }),
    startMs: near(around),
    quarters: constantFrom(3, 96, 3 * 96, 40 * 96),
    asDays: boolean(),
    filter: constantFrom('none', 'none', 'none', 'billingId', 'usageName', 'apiKeyId', 'route', 'customerId'),
    form: constantFrom('json', 'json', 'csv', 'record'),
    limit: constantFrom(3, 1_000),
  });
}
type Question = ReturnType<typeof questionsAround> extends Arbitrary<infer Value> ? Value : never;

const scenes = constantFrom(...DAYS, today).chain((around) =>
  record({
    early: array(eventsAround(around), { minLength: 30, maxLength: 80 }),
    late: array(eventsAround(around), { maxLength: 8 }),
    asked: array(questionsAround(around), { minLength: 10, maxLength: 10 }),
  }),
);

test('answers in every form, grouping, interval and zone are the sums of the events in the books, late ones and corrections too', async () => {
  const numRuns = Number(process.env.USAGE_RUNS ?? 8);
  const seed = Number(process.env.USAGE_SEED ?? 33);
  await check(
    asyncProperty(scenes, async ({ early, late, asked }) => {
      const { workspaceId, records } = await newWorkspace();
      await book(workspaceId, records, early);
      await rollUp({ sql: world.sql, books }, Date.now(), new AbortController().signal);
      await book(workspaceId, records, late);
      const events = await eventsOf(workspaceId);
      for (const question of asked) await compare(workspaceId, records, events, question);
    }),
    { numRuns, seed, endOnFailure: true },
  );
});

test.run();

type Row = Record<string, string>;

async function compare(workspaceId: string, records: string[], events: Row[], question: Question): Promise<void> {
  const { timezone, interval, filter, form, asDays, startMs: givenMs, quarters } = question;
  const groupBy = form === 'record' ? question.groupBy.filter((one) => one !== 'billing') : question.groupBy;
  const zoned = (ms: number) => Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timezone);
  const first = zoned(givenMs).toPlainDate();
  const last = zoned(givenMs + quarters * QUARTER_MS).toPlainDate();
  const startMs = asDays ? zonedStart(first, timezone) : givenMs;
  const endMs = asDays ? zonedStart(last.add({ days: 1 }), timezone) : givenMs + quarters * QUARTER_MS;
  const filters: Row = form === 'record' ? { billingId: records[1]! } : filterOf(filter, records);
  const given = {
    timezone,
    interval,
    groupBy: (groupBy.length > 0 ? groupBy : ['usageName']).join(),
    from: asDays ? first.toString() : new Date(startMs).toISOString(),
    to: asDays ? last.toString() : new Date(endMs).toISOString(),
  };
  const keys = given.groupBy.split(',') as Group[];
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
    const sum = (expected[[start, ...keys.map((key) => event[columns[fieldOf[key]]!])].join('|')] ??= [0n, 0]);
    sum[0] += BigInt(event.cost_micros!);
    if (event.kind === 'verification' || event.kind === 'capture') sum[1] += 1;
  }
  const rows = await read(workspaceId, { ...given, ...filters }, question);
  const found = rows.map((row): [string, string[]] => [
    [row.start, ...keys.map((key) => row[fieldOf[key]] ?? '')].join('|'),
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
