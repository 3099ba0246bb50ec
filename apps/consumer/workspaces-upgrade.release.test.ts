// Books that were written before events had workspaces: they are copied once, while consumers go on.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { wronglyBilledDays } from '../../shared/books/reconciling/billed.ts';
import { readBooked } from '../../shared/books/sums/booked-records.ts';
import { columnsOfEvent, lineOfEvent, sumsOfLine } from '../../shared/books/sums/day-sums.ts';
import { carryDecoded } from '../../shared/events/carried-event.ts';
import { dayOf, eventColumns, eventRow, type UsageEvent } from '../../shared/events/event.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectClickHouse, IS_COUNTED, IS_USAGE, type Books } from '../../shared/stores/clickhouse.ts';
import { knownMigrations, migrateClickHouse } from '../../shared/stores/migrate.ts';
import { newId } from '../../shared/values/ids.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { eventually } from '../../tests/helpers/eventually.ts';
import { makeMarkChangedDays } from './changed-days.ts';
import { makeFillOwners } from './fill-owners.ts';
import { makeConsumerWorld, type ConsumerWorld } from './helpers/consumer-world.ts';
import { usageByDay } from './helpers/usage-by-day.ts';
import { dyingBooks } from './helpers/dying-books.ts';
import { insertEvents } from './insert-events.ts';
import { rollUp } from './jobs/rollup.ts';

const DAY_MS = 86_400_000;
const QUARTER_MS = 900_000;
const DAYS = 70;
const CUSTOMER = 'Müller & "Söhne"';
const never = new AbortController().signal;
let own: ConsumerWorld;
const test = suite('upgrade to workspaces');
test.before(async () => {
  own = await makeConsumerWorld();
});
test.after(() => own?.stop());

test('a copy that dies at any of its statements goes on, and nothing is lost or doubled while consumers of both versions write', async () => {
  const url = new URL(own.world.env.CLICKHOUSE_URL!);
  url.pathname += '_before';
  const { sql } = own.world;
  const books = connectClickHouse(url.href);
  const way = await dyingBooks(url.href);
  try {
    await migrateClickHouse(url.href, { sql, only: knownMigrations().clickhouse.filter((name) => name < '0004') });
    const nowMs = Date.now();
    const made = await makeRecords(nowMs);
    await insertAsBefore(books, made.events, { inserted: 'long ago' });
    await insertAsBefore(books, made.events.slice(0, 100), { inserted: 'long ago' });
    await sumUpAsBefore(books, nowMs);
    for (const { billingId } of made.events)
      if (billingId !== '')
        await sql`insert into usage_marks (billing_id, day) values (${billingId}, ${dayOf(nowMs)}) on conflict do nothing`;

    const all = [...made.events];
    const warned: string[] = [];
    const options = { sql, rowsAtOnce: 150, warn: (text: string) => void warned.push(text) };
    const mark = makeMarkChangedDays(sql);
    const fill = makeFillOwners(sql, makeLogger('test', 'silent'));
    const justBefore: UsageEvent[] = [];
    way.before('exchange tables', async () => {
      justBefore.push(made.next(0));
      await insertAsBefore(books, justBefore.slice(-1));
    });
    let writers = '';
    for (let attempt = 1, done = false; !done; attempt++) {
      const late = made.next(attempt);
      all.push(late);
      // Of the two consumers one is refused, and its event waits; where one of before wrote it, the new one may see it, too.
      const before = await insertAsBefore(books, [late]).then(isDone, isRefused);
      const filled = await fill([carryDecoded(late)]);
      const after = await insertEvents(books, filled).then(isDone, isRefused);
      assert.is(before, !after, 'exactly one of them writes');
      writers += before ? 'b' : 'a';
      await mark(before ? [late].filter(({ billingId }) => billingId !== '') : filled, nowMs);
      way.dieAt(attempt, attempt % 2 === 0);
      done = await migrateClickHouse(way.url, options).then(isDone, () => false);
    }
    assert.match(writers, /^b{20,}a+$/, 'one after the other');
    assert.ok(justBefore.length > 0);
    const last = made.next(0);
    // Both kinds of consumers deliver some of them twice.
    await insertEvents(books, await fill([last, ...all.slice(-20)].map(carryDecoded)));
    all.push(last, ...justBefore);
    await mark(await fill([carryDecoded(last)]), nowMs);

    const tables = await rows<{ name: string }>(
      books,
      'select name from system.tables where database = currentDatabase()',
    );
    assert.equal(tables.map(({ name }) => name).toSorted(), [
      'booked_days',
      'recent_refusals',
      'refusals',
      'schema_migrations',
      'usage_days',
      'usage_events',
    ]);
    const known = new Map(all.map((event) => [event.id, made.stamped(event)]));
    const copied = await rows<Record<string, string>>(
      books,
      'select event_id as id, workspace_id as workspace, customer_id as customer from usage_events final order by id',
    );
    const wanted = [...known.values()].map(({ id, workspaceId, customerId }) => ({
      id,
      workspace: workspaceId,
      customer: customerId,
    }));
    assert.equal(
      copied,
      wanted.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    );
    const gone = [...known.values()].filter(({ workspaceId }) => workspaceId === '').length;
    assert.match(warned.at(-1)!, new RegExp(`^${gone} events have no workspace`));

    await rollUp({ sql, books }, nowMs, never);
    await requireSums(books, [...known.values()], nowMs);
    await requireBalances(books, [...known.values()], made.records);
  } finally {
    way.close();
    await books.client.command({ query: `drop database if exists ${url.pathname.slice(1)}` });
    await books.close();
  }
});

test('a second migrator waits for the copy of the first, and the books are whole', async () => {
  const url = new URL(own.world.env.CLICKHOUSE_URL!);
  url.pathname += '_twice';
  const { sql } = own.world;
  const books = connectClickHouse(url.href);
  const way = await dyingBooks(url.href);
  try {
    const known = knownMigrations().clickhouse;
    await migrateClickHouse(url.href, { sql, only: known.filter((name) => name < '0004') });
    const { events } = await makeRecords(Date.now());
    await insertAsBefore(books, events);
    let second: Promise<string[]> | undefined;
    let said = '';
    way.before('exchange tables', async () => {
      second ??= migrateClickHouse(url.href, { sql, say: (text) => (said = text()) });
      const waits = eventually('the second one waits', async () => /until another program has migrated/.test(said));
      await Promise.race([waits, second]);
    });
    const first = await migrateClickHouse(way.url, { sql, rowsAtOnce: 150 });
    assert.equal(
      first,
      known.filter((name) => name >= '0004'),
    );
    assert.equal(await second, []);
    const copied = await rows<{ id: string }>(books, 'select event_id as id from usage_events final order by id');
    assert.equal(
      copied.map(({ id }) => id),
      events.map(({ id }) => id).toSorted(),
    );
  } finally {
    way.close();
    await books.client.command({ query: `drop database if exists ${url.pathname.slice(1)}` });
    await books.close();
  }
});

test.run();

const isDone = () => true;
function isRefused(error: Error): false {
  assert.match(error.message, /replace the consumer of the version before|No such column workspace_id/);
  return false;
}

type Owner = { workspaceId: string; keyId: string; billingId: string };

/** Records and keys of two workspaces, and of none, with events of every day. */
async function makeRecords(nowMs: number) {
  const { sql } = own.world;
  const stored = await Promise.all([own.storeKeyAndBilling(), own.storeKeyAndBilling()]);
  await sql`update api_keys set customer_id = ${CUSTOMER} where id = ${stored[0].keyId}`;
  const gone = { workspaceId: '', keyId: newId('key'), billingId: newId('bill') };
  const owners: Owner[] = [...stored, gone].flatMap((owner) => [owner, { ...owner, billingId: '' }]);
  const used = new Map<string, { sequence: number; usedMicros: number; adjustments: number }>();
  const today = Math.floor(nowMs / DAY_MS) * DAY_MS;

  function eventOf({ keyId, billingId }: Owner, ago: number, i: number): UsageEvent {
    const timeMs = Math.min(nowMs - 1_000, today - ago * DAY_MS + ((i * 7_919) % 96) * QUARTER_MS);
    const known = used.get(billingId) ?? { sequence: 0, usedMicros: 0, adjustments: 0 };
    used.set(billingId, known);
    const costMicros = 1 + (i % 13);
    known.usedMicros += costMicros;
    if (billingId !== '' && i % 11 === 0) {
      known.adjustments += 1;
      const texts = { kind: 'adjustment' as const, keyId: '', actor: 'token', reason: 'why' };
      const numbers = { number: known.adjustments, sequence: known.sequence, usedMicros: known.usedMicros };
      return testEvent({ ...texts, ...numbers, billingId, timeMs, day: dayOf(timeMs), costMicros, usageName: 'b' });
    }
    known.sequence += 1;
    const numbers = billingId === '' ? { usedMicros: 0, sequence: 0, epoch: 0 } : known;
    return testEvent({ keyId, billingId, timeMs, costMicros, usageName: i % 3 === 0 ? 'a' : 'b', ...pick(numbers) });
  }

  return {
    records: stored,
    events: owners.flatMap((owner, o) =>
      Array.from({ length: DAYS }, (_, ago) => [0, 1].map((twice) => eventOf(owner, ago, ago * 5 + o + twice))).flat(),
    ),
    /** One more event, of any owner and one of the last days. */
    next: (i: number) => eventOf(owners[i % owners.length]!, (i * 3) % 5, i),
    /** The event as the books have to have it. */
    stamped(event: UsageEvent): UsageEvent {
      const owner = owners.find(
        ({ keyId, billingId }) => event.keyId === keyId || (event.billingId || '-') === billingId,
      )!;
      const customerId = event.keyId === stored[0].keyId ? CUSTOMER : '';
      return { ...event, workspaceId: owner.workspaceId, customerId };
    },
  };
}

function pick({ sequence, usedMicros }: { sequence: number; usedMicros: number }) {
  return { sequence, usedMicros };
}

/** Inserts events as a consumer of the version before does: it knows the columns of then. */
async function insertAsBefore(
  { client }: Books,
  events: UsageEvent[],
  { inserted }: { inserted?: 'long ago' } = {},
): Promise<void> {
  const isOfThen = (_: unknown, i: number) => !['workspace_id', 'customer_id'].includes(eventColumns[i]!);
  const columns = [...eventColumns.filter(isOfThen), ...(inserted ? ['inserted_at'] : [])] as [string, ...string[]];
  const values = events.map((event) => [...eventRow(event).filter(isOfThen), ...(inserted ? [event.timeMs] : [])]);
  await client.insert({ table: 'usage_events', columns, values, format: 'JSONCompactEachRow' });
}

/** Sums up the days that are over, as the version before did. */
async function sumUpAsBefore({ client }: Books, nowMs: number): Promise<void> {
  const of = `from usage_events final where billing_id != '' and day < '${dayOf(nowMs)}'`;
  await client.command({
    query: `insert into usage_daily select billing_id, day, usage_name, sum(cost_micros), countIf(${IS_COUNTED}), count() ${of}
            and ${IS_USAGE} group by billing_id, day, usage_name`,
  });
  await client.command({
    query: `insert into booked_days (billing_id, day, line, epoch, ${Object.keys(sumsOfLine).join(', ')}, all_events)
            select billing_id, day, line, line_epoch, ${Object.values(sumsOfLine).join(', ')}, count()
            from (select billing_id, day, ${columnsOfEvent}, ${lineOfEvent} ${of}) group by billing_id, day, line, line_epoch`,
  });
}

/** usage_days has the sums of the events of all days that are over, and of no other quarter hour. */
async function requireSums(books: Books, events: UsageEvent[], nowMs: number): Promise<void> {
  const found = await rows<Record<string, unknown>>(
    books,
    `select workspace_id as workspace, billing_id as billing, toString(day) as of, usage_name as name, toInt32(cost_micros) as cost,
            toInt32(events) as number, slots, arrayMap(x -> toInt32(x), slot_micros) as costs,
            arrayMap(x -> toInt32(x), slot_events) as numbers, toInt32(adjustment_micros) as adjusted, toInt32(adjustments) as adjustments
     from usage_days final where day < '${dayOf(nowMs)}' order by workspace, billing, of, name`,
  );
  const over = events.filter(({ day }) => day < dayOf(nowMs));
  const groups = Map.groupBy(over, (one) => [one.workspaceId, one.billingId, one.day, one.usageName].join('\0'));
  const wanted = [...groups]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, some]) => {
      const [workspace, billing, of, usageName] = name.split('\0');
      const adjusted = some.filter(({ kind }) => kind === 'adjustment');
      const counted = some.filter(({ kind }) => kind !== 'adjustment');
      const slots = Map.groupBy(counted, ({ timeMs }) => Math.floor((timeMs % DAY_MS) / QUARTER_MS));
      const inOrder = [...slots].toSorted(([a], [b]) => a - b);
      return {
        workspace,
        billing,
        of,
        name: usageName,
        cost: sum(some),
        number: counted.length,
        slots: inOrder.map(([slot]) => slot),
        costs: inOrder.map(([, of]) => sum(of)),
        numbers: inOrder.map(([, of]) => of.length),
        adjusted: sum(adjusted),
        adjustments: adjusted.length,
      };
    });
  assert.equal(found, wanted);
}

/** What settling, reconciling and `/usage` read of each record is the sum of its events. */
async function requireBalances(books: Books, events: UsageEvent[], records: Owner[]): Promise<void> {
  const { sql } = own.world;
  for (const { billingId, workspaceId } of records) {
    const ofRecord = events.filter((one) => one.billingId === billingId);
    const billing = { id: billingId, workspaceId, shard: 0, externalMeterId: 'm' };
    const nothing = { usedMicros: 0, lateMicros: 0, lateEvents: 0, adjustment: 0, sequences: new Map() };
    const balance = { billing, atMs: 0, epoch: 2, ...nothing };
    const { epochs, adjustments, lastMicros, openDays } = (await readBooked({ sql, books }, [balance])).get(billingId)!;
    const booked = epochs.reduce((micros, { late }) => micros + late.micros, 0);
    const late = adjustments.late.micros;
    assert.equal(
      [booked + late, lastMicros],
      [sum(ofRecord), Math.max(...ofRecord.map(({ usedMicros }) => usedMicros))],
    );
    assert.equal(await wronglyBilledDays(books, { id: billingId, workspaceId, openDays }), []);
    const usage = await usageByDay({ sql, books }, { workspaceId, billingId });
    assert.is(
      usage.reduce((micros, row) => micros + row.costMicros, 0),
      sum(ofRecord),
    );
  }
}

function sum(events: UsageEvent[]): number {
  return events.reduce((micros, { costMicros }) => micros + costMicros, 0);
}

async function rows<Row>({ client }: Books, query: string): Promise<Row[]> {
  return (await client.query({ query, format: 'JSONEachRow' })).json<Row>();
}
