import { rejects } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { spanOfMonth } from '../../../shared/books/statements/span.ts';
import { makeStatements, type Statement } from '../../../shared/books/statements/statements.ts';
import { dayOf } from '../../../shared/events/event.ts';
import { makeLogger } from '../../../shared/runtime/log.ts';
import { IS_USAGE } from '../../../shared/stores/clickhouse.ts';
import { newId } from '../../../shared/values/ids.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { addsUp, micros } from '../../../tests/helpers/adds-up.ts';
import { backdate, backdateRows } from '../../../tests/helpers/backdate.ts';
import { carryAll } from '../../../tests/helpers/carry.ts';
import { makeHastyClock } from '../../../tests/helpers/clock.ts';
import { connectPatiently } from '../../../tests/helpers/patient-redis.ts';
import { makeWorld, once, makeCustomers, must, column, columns } from '../../../tests/helpers/world.ts';
import type { Customers, TestKey } from '../../../tests/helpers/world.ts';
import { makeRandom } from '../../../tests/simulator/random.ts';
import { reopen } from '../../api/reopen/reopen.ts';
import { closeMonths } from './close-months.ts';
import { rollUp } from './rollup.ts';

// The api alone runs: what a consumer carries, and its job, come when a test says so.

const log = makeLogger('test', 'silent');
const never = new AbortController().signal;
const world = await makeWorld([]);
const { books } = world;
const redis = connectPatiently(world.env.REDIS_URL!, makeHastyClock());
await redis.connected(60_000);
test.after(() => redis.close());

test('east of UTC a month that closes at once leaves a day to book adjustments on, and the books stay exact', async () => {
  const { workspaceId, customers } = await newWorkspace('2026-09-05T00:00Z', 'Asia/Tokyo');
  const key = await customers.meteredKey('100');
  const { id } = await customers.billing(key.meter);
  const [today, next, after] = [0, 1, 2].map((days) => dayOf(Date.now() + days * DAY_MS)) as [string, string, string];
  // As in the first hours of a month in Tokyo: in UTC it is still the last day of the month before.
  await world.sql`
    insert into workspace_months (workspace_id, month, team_id, timezone, start_ms, end_ms, start_day, end_day, closed_at)
    values (${workspaceId}, '2026-09', ${world.team.id}, 'Asia/Tokyo', 0, ${Date.now()}, '2026-09-01', ${next}, now())`;
  await spend(customers, key, '5', 'tokens');
  const adjusted = await must(201, book(id, { amount: '-1', reason: 'r' }));
  assert.is(adjusted.body.adjustment.day, next);
  await must(201, book(id, { amount: '-0.5', reason: 'r', day: next }));
  assert.is((await book(id, { amount: '1', reason: 'r', day: after })).status, 400);
  assert.is((await book(id, { amount: '1', reason: 'r', day: today })).body.error.code, 40970);

  await carry();
  const isProved = async () => {
    const path = `/api/v1/customer-billing/${id}/reconciliation`;
    return (await must(200, world.call('get', path))).body.reconciliation.status === 'EXACT';
  };
  assert.ok(await isProved());
  const booked = async () => {
    const { data } = (await must(200, world.call('get', `/api/v1/usage/${id}?from=${today}&to=${next}`))).body;
    return Object.fromEntries(columns(data, 'day', 'totalBillingUsage'));
  };
  const days = { [today]: '5', [next]: '-1.5' };
  assert.equal(await booked(), days);
  // Alone in the books, it is all that is summed up.
  await rollUp(stores(), Date.now() + 3 * DAY_MS, never);
  assert.equal(await booked(), days);
  assert.ok(await isProved());
});

test('statements of closed months, and what later ones tell late of them, are the usage of the month and of the balance', async () => {
  const random = makeRandom(7);
  const { workspaceId, customers } = await newWorkspace('2026-08-05T00:00Z', 'Asia/Kathmandu');
  const keys = [await customers.meteredKey('1000'), await customers.meteredKey('1000')];
  await backdateRows(world.sql, workspaceId, at('2026-08-05T00:00Z'));
  const months = ['2026-08', '2026-09', '2026-10'];
  const traffic = async (month: string, calls: number) => {
    for (let i = 0; i < calls; i++) {
      const key = keys[i % keys.length]!;
      const usageName = random.pick(['tokens', 'calls', 'images']);
      const day = String(2 + random.below(26)).padStart(2, '0');
      const more = { usageName, reason: 'r', day: `${month}-${day}` };
      if (month === '2026-10' && i % 4 === 3)
        await adjust(customers, key, { amount: `0.0${1 + random.below(9)}`, ...more });
      else await spend(customers, key, `0.${String(random.below(1_000_000)).padStart(6, '0')}`, usageName);
      await backdate(redis, at(`${month}-${day}T${String(random.below(24)).padStart(2, '0')}:00Z`));
    }
  };
  // A day that is in no month is refused; the first one begins before the workspace does.
  const bookAround = async ({ meter }: TestKey, first: string) => {
    const { id } = await customers.billing(meter);
    const days = Array.from({ length: 3 }, () => dayOf(at(first) + (random.below(74) - 70) * DAY_MS));
    for (const day of ['2026-07-31', first, ...days]) {
      const { status, body } = await book(id, { amount: '0.5', reason: 'r', day });
      assert.equal([status, body.error?.details[0].path], day < first ? [400, '/day'] : [201, undefined], day);
    }
  };
  for (const key of keys) await bookAround(key, '2026-08-01');
  for (const month of months) {
    await traffic(month, 4);
    // Late events of the months before, some of which are closed.
    for (const earlier of months.filter((one) => one < month)) await traffic(earlier, 2);
    await carry();
    await closed(workspaceId, month);
  }
  await traffic('2026-08', 2);
  await traffic('2026-11', 2);
  await carry();
  for (const key of keys) {
    const { id, usedCredits } = await customers.billing(key.meter);
    const all = [];
    for (const month of [...months, '2026-11']) all.push(await statement(id, `month=${month}`));
    for (const [i, one] of all.entries()) {
      assert.is(one.closed, i < 3);
      if (i > 0) assert.equal(one.opening, all[i - 1].closing, 'it begins with what the one before ended with');
      addsUp(one);
    }
    assert.is(all.at(-1).closing.used, usedCredits);
    const own = all.flatMap(({ month, movements }) =>
      movements
        .filter(({ kind }: any) => ['usage', 'adjustment', 'late'].includes(kind))
        .map((one: any) => ({ month: one.month ?? month, micros: micros(one.amount) })),
    );
    for (const month of [...months, '2026-11']) {
      const told = own.filter((one) => one.month === month).reduce((sum, one) => sum + one.micros, 0n);
      assert.is(told, await rawUsage(id, month), `${id} ${month}`);
    }
  }
  assert.ok((await world.sql`select from late_months where told::text <> '{}'`).count > 0, 'something was late');
});

test('after a change of the time zone the next month begins where the closed one ended, and no instant is in two or in none', () => {
  const { endMs: startMs, endDay: startDay } = spanOfMonth('2026-08', 'UTC');
  const ends = { 'Asia/Tokyo': '2026-09-30T15:00Z', 'Pacific/Honolulu': '2026-10-01T10:00Z' };
  for (const [timezone, end] of Object.entries(ends)) {
    const span = spanOfMonth('2026-09', timezone, { startMs, startDay });
    assert.equal([span.startMs, span.endMs], [at('2026-09-01T00:00Z'), at(end)], timezone);
    assert.equal([span.days[0], span.days.at(-1), span.starts[0]], ['2026-09-01', '2026-09-30', startMs], timezone);
  }
});

test('a closed month and its file are the same bytes ever after', async () => {
  const { workspaceId, customers, keys } = await makeSeptember([0, 1, 0], '1.25', '=tokens');
  const one = keys[0]!;
  await carry();
  await closed(workspaceId, '2026-09');
  const { id } = await customers.billing(one.meter);
  const read = async () => [
    (await must(200, world.call('get', `/api/v1/statements?workspaceId=${workspaceId}&month=2026-09&format=csv`))).text,
    (await must(200, world.call('get', `/api/v1/customer-billing/${id}/statement?month=2026-09`))).text,
    (await must(200, world.call('get', `/api/v1/customer-billing/${id}/statement?month=2026-09&format=csv`))).text,
  ];
  const before = await read();
  assert.is(before[0]!.split('\r\n').length, 4, before[0]);
  await spend(customers, one, '4', 'constructor');
  await backdate(redis, at('2026-09-11T10:00Z'));
  await customers.newMeter({ totalCredits: '3' });
  await must(200, world.call('patch', `/api/v1/workspace/${workspaceId}`, { timezone: 'America/St_Johns' }));
  await adjust(customers, one, { amount: '-1', reason: 'r', day: '2026-10-01' });
  await carry();
  const next = await statement(id, 'month=2026-10');
  assert.equal(await read(), before);
  await closed(workspaceId, '2026-10');
  assert.equal(await read(), before);
  await rebuildShardsOf(workspaceId);
  assert.equal(await read(), before, 'after a rebuild of Redis');
  assert.equal(columns(next.movements, 'day', 'kind', 'name', 'amount', 'events', 'month'), [
    ['2026-10-01', 'adjustment', 'default', '-1', undefined, undefined],
    ['2026-10-01', 'late', 'constructor', '4', 1, '2026-09'],
  ]);
  assert.equal([next.timezone, next.opening.used], ['America/St_Johns', '2.5']);
});

test('an adjustment goes into a month before it closes, or is refused with the first open day, and none is lost between', async () => {
  const { workspaceId, customers } = await newWorkspace('2026-09-05T00:00Z');
  const key = await customers.meteredKey('100');
  await backdateRows(world.sql, workspaceId, at('2026-09-05T00:00Z'));
  const { id } = await customers.billing(key.meter);
  const bookHalf = () => book(id, { amount: '0.5', reason: 'r', day: '2026-09-30' });
  const booked = Array.from({ length: 6 }, bookHalf);
  const closing = close(workspaceId, { month: '2026-09' });
  const more = Array.from({ length: 6 }, bookHalf);
  const answers = await Promise.all([...booked, ...more]);
  assert.is((await closing).status, 200);
  const codes = answers.map(({ status, body }) => body.error?.code ?? status);
  const known = codes.every((code) => code === 201 || code === 40970);
  assert.ok(known, codes.join());
  await carry();
  await closed(workspaceId, '2026-09');
  const made = await statement(id, 'month=2026-09');
  const stored = answers.filter(({ status }) => status === 201).length;
  const adjustments = made.movements.filter(({ kind }: any) => kind === 'adjustment');
  assert.equal([Number(made.closing.used), adjustments.length], [stored / 2, stored]);
  const refused = await book(id, { amount: '1', reason: 'r', day: '2026-09-30' });
  assert.equal([refused.status, refused.body.error.code], [409, 40970]);
  assert.match(refused.body.error.message, /2026-10-01 or later/);
  assert.is((await book(id, { amount: '1', reason: 'r', day: '2026-10-01' })).status, 201);
});

test('closing that runs twice at once, or is asked for again, stores each line once', async () => {
  const { workspaceId } = await makeSeptember([0, 1, 2]);
  await carry();
  for (let twice = 0; twice < 2; twice++) await must(200, close(workspaceId, { month: '2026-09' }));
  const audited = await world.sql`
    select from audit_log where resource = 'workspace_month' and resource_id = ${workspaceId}`;
  assert.is(audited.count, 1);
  const lines = () =>
    world.sql`select billing_id, closing.used_micros, created_at from statement_lines closing where workspace_id = ${workspaceId} order by 1`;
  await Promise.all([run(), run()]);
  const stored = await lines();
  assert.equal(column(stored, 'usedMicros'), [1_000_000, 1_000_000, 1_000_000]);
  await run();
  assert.equal(await lines(), stored);
  const { closing } = (await must(200, close(workspaceId, { month: '2026-09' }))).body;
  assert.equal([closing.status, closing.records, closing.from, closing.to], ['CLOSED', 3, '2026-09-01', '2026-09-30']);
  await rejects(() => world.sql`update statement_lines set used_micros = 0 where workspace_id = ${workspaceId}`);
});

test('a record made after a month has a line in it only where something is booked on one of its days, whatever zone begins it later', async () => {
  for (const [madeAt, later] of [
    ['2026-09-05T00:00Z', 'UTC'],
    ['2026-09-30T23:30Z', 'Asia/Tokyo'],
  ] as const) {
    const { workspaceId, customers } = await newWorkspace(madeAt);
    const [inside, after] = [await customers.meteredKey('10'), await customers.meteredKey('10')];
    await adjust(customers, inside, { amount: '1', reason: 'r', day: '2026-09-30' });
    await adjust(customers, after, { amount: '1', reason: 'r', day: '2026-10-01' });
    await carry();
    await must(200, world.call('patch', `/api/v1/workspace/${workspaceId}`, { timezone: later }));
    assert.is((await closed(workspaceId, '2026-09')).records, 1, later);
    const lines = await world.sql`select billing_id as id from statement_lines where workspace_id = ${workspaceId}`;
    assert.equal(column(lines, 'id'), [(await customers.billing(inside.meter)).id], later);
  }
});

test('a month closes by itself three days after its end, once the books of all its records are exact', async () => {
  const { workspaceId, customers, keys } = await makeSeptember([0, 1]);
  await world.sql`delete from job_watermarks`;
  const due = () => world.sql`update workspaces set month_due_at = null where id = ${workspaceId}`;
  const months = () => world.sql<{ month: string; closed: boolean; waiting: any }[]>`
    select month, closed_at is not null as closed, waiting from workspace_months where workspace_id = ${workspaceId} order by month`;
  await world.sql`
    insert into webhooks (id, team_id, workspace_id, url, events)
    values (${newId('hook')}, ${world.team.id}, ${workspaceId}, 'https://hooks.example.com', ${['month.closed']})`;
  await due();
  await run(at('2026-10-03T23:59:59.999Z'));
  assert.is((await months()).length, 0);
  await due();
  // It begins with the first run, which everybody has to see before the second.
  for (let twice = 0; twice < 2; twice++) await run(at('2026-10-04T00:00:00Z'));
  const [waits] = await months();
  assert.equal([waits!.closed, waits!.waiting.pending, waits!.waiting.different], [false, 2, 0]);
  assert.equal((await close(workspaceId, { month: '2026-09' })).body.closing.waitsFor.pending, 2);
  const audited = await world.sql`
    select operation, token_id, after from audit_log where resource = 'workspace_month' and resource_id = ${workspaceId}`;
  const after = { month: '2026-09', acceptsDifferences: false };
  assert.equal([...audited], [{ operation: 'month closed', tokenId: null, after }]);

  await carry();
  await run(at('2026-10-04T00:00:00Z'));
  assert.is((await months())[0]!.closed, true);
  const { id } = await customers.billing(keys[0]!.meter);
  assert.is((await statement(id, 'month=2026-09')).closed, true);
  const told = await world.sql<{ data: object }[]>`select data from webhook_events where subject_id = ${workspaceId}`;
  assert.equal([...told], [{ data: { month: '2026-09', timezone: 'UTC', records: 2 } }]);
});

test('a month closes once nobody is left who does not see that, and at once in a dump of another cluster', async () => {
  const { workspaceId } = await newWorkspace('2026-09-05T00:00Z');
  const isClosed = async () => {
    await closeMonths(stores(), at('2026-10-04T00:00:00Z'), log, never);
    const [month] = await world.sql<[{ isClosed: boolean }]>`
      select closed_at is not null as is_closed from workspace_months where workspace_id = ${workspaceId}`;
    return month.isClosed;
  };
  await world.sql.begin(async (older) => {
    await older`select pg_current_xact_id()`;
    await world.sql`update workspaces set month_due_at = null where id = ${workspaceId}`;
    assert.is(await isClosed(), false, 'it began to close in a transaction that is not over for all');
    // As pg_restore brings it: with the id of a transaction that this cluster has not come to.
    await world.sql`update workspace_months set tx = (tx::text::bigint + 1000000000)::text::xid8 where workspace_id = ${workspaceId}`;
    assert.is(await isClosed(), true);
  });
});

test('a record whose books differ keeps its month open, and no other line, until the difference is accepted', async () => {
  const { workspaceId, customers, keys } = await makeSeptember([0, 1, 1, 1]);
  await carry();
  const [goodId, badId] = [(await customers.billing(keys[0]!.meter)).id, (await customers.billing(keys[1]!.meter)).id];
  const query = `alter table usage_events delete where billing_id = '${badId}' and seq = 2 settings mutations_sync = 2`;
  await books.client.command({ query });
  await must(200, close(workspaceId, { month: '2026-09' }));
  await run();
  const { closing } = (await close(workspaceId, { month: '2026-09' })).body;
  assert.equal(closing.waitsFor, { pending: 0, different: 1, billingIds: [badId] });
  assert.is((await statement(goodId, 'month=2026-09')).closed, true);
  await must(200, close(workspaceId, { month: '2026-09', acceptDifferences: true }));
  await closed(workspaceId, '2026-09');
  assert.equal((await statement(badId, 'month=2026-09')).proof, {
    status: 'DIFFERENT',
    differences: [{ what: 'used credits that the books lack', credits: '1' }],
  });
});

test('what was granted since a run began is in no month that it closes', async () => {
  const { workspaceId, customers } = await newWorkspace('2026-09-05T00:00Z');
  const { meter } = await customers.meteredKey('10');
  await backdateRows(world.sql, workspaceId, at('2026-09-05T00:00Z'));
  const { id } = await customers.billing(meter);
  const [record] = await world.sql<[{ shard: number }]>`select shard from billing_records where id = ${id}`;
  const path = `/api/v1/customer-billing/${id}/grant`;
  // The second one counts the first, which has begun.
  for (const [name, credits] of Object.entries({ first: '100', second: '7' }))
    await must(201, world.call('post', path, { name, credits }, { headers: { 'Idempotency-Key': name } }));
  const { statements } = await makeStatements(stores(), {
    workspaceId,
    billings: [{ id, workspaceId, externalMeterId: meter, shard: record.shard }],
    span: spanOfMonth('2026-09', 'UTC'),
    nowMs: Date.now() - 600_000,
    patienceMs: 0,
  });
  const [{ opening, movements, closing }] = statements as [Statement];
  assert.equal([opening.totalMicros, closing.totalMicros], [0, 10_000_000]);
  assert.equal(columns(movements, 'kind', 'micros'), [['granted', 10_000_000]]);
});

test('only the next month can be closed, once it is over', async () => {
  const { workspaceId, customers } = await newWorkspace('2026-08-05T00:00Z');
  await customers.newMeter({});
  await backdateRows(world.sql, workspaceId, at('2026-08-05T00:00Z'));
  const code = async (month: unknown) => (await close(workspaceId, { month })).body.error?.code;
  for (const month of ['2026-09', '2026-07']) assert.is(await code(month), 40971, month);
  assert.is(await code('2026-08'), undefined);
  const early = await close(workspaceId, { month: '2026-09' });
  assert.equal([early.status, early.body.error.code], [409, 40971]);
  assert.match(early.body.error.message, /2026-08 is CLOSING/);
  const fresh = await newWorkspace(new Date().toISOString());
  const refused = await close(fresh.workspaceId, { month: new Date().toISOString().slice(0, 7) });
  assert.equal([refused.status, refused.body.error.details[0].path], [400, '/month']);
});

test('a workspace whose month fails to begin holds up no other, and is tried again', async () => {
  const [bad, good] = [await newWorkspace('2026-09-05T00:00Z'), await newWorkspace('2026-09-05T00:00Z')];
  const begun = async () => {
    const [ofBad, ofGood] = [bad, good].map(({ workspaceId }) => workspaceId);
    const rows = await world.sql<{ workspaceId: string }[]>`
      select workspace_id from workspace_months where workspace_id in (${ofBad!}, ${ofGood!})`;
    return rows.map(({ workspaceId }) => (workspaceId === ofBad ? 'bad' : 'good')).toSorted();
  };
  await world.sql`update workspaces set timezone = 'No/Where', month_due_at = 1 where id = ${bad.workspaceId}`;
  await world.sql`update workspaces set month_due_at = 2 where id = ${good.workspaceId}`;
  await run(at('2026-10-04T00:00:00Z'));
  assert.equal(await begun(), ['good']);
  await world.sql`update workspaces set timezone = 'UTC' where id = ${bad.workspaceId}`;
  await run(at('2026-10-04T00:01:00Z'));
  assert.equal(await begun(), ['bad', 'good']);
});

function stores() {
  return { sql: world.sql, redis, books };
}

function carry(): Promise<void> {
  return carryAll(stores());
}

/** Runs the job. Everybody sees which months are closing, and each is looked at again at once, instead of after 20 s. */
async function run(nowMs = Date.now()): Promise<void> {
  await world.sql`update workspace_months set looked_at = null, tx = '3' where closed_at is null`;
  await closeMonths(stores(), nowMs, log, never);
}

/** Fills again what Redis has of a workspace's records. */
async function rebuildShardsOf(workspaceId: string): Promise<void> {
  const rows = await world.sql<{ shard: number }[]>`
    select distinct shard from billing_records where workspace_id = ${workspaceId}`;
  const stalePostgres = { note: () => {}, refuse: () => {} };
  const shards = rows.map(({ shard }) => shard);
  await reopen({ ...stores(), log, stalePostgres }, redis.node(0), shards, { rebuild: true });
}

function at(text: string): number {
  return Date.parse(text);
}

async function newWorkspace(madeAt: string, timezone = 'UTC') {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w', timezone }))).body;
  // It closes no month by itself, however long ago it was made.
  await world.sql`
    update workspaces set created_at = ${new Date(madeAt)}, month_due_at = 9000000000000000 where id = ${workspace.id}`;
  return { workspaceId: workspace.id as string, customers: makeCustomers(world, workspace.id) };
}

/** A workspace since September, whose keys have called in this order on one of its days. */
async function makeSeptember(calls: number[], usage = '1', usageName = 'tokens') {
  const { workspaceId, customers } = await newWorkspace('2026-09-05T00:00Z');
  const keys: TestKey[] = [];
  for (let i = 0; i <= Math.max(...calls); i++) keys.push(await customers.meteredKey('10'));
  await backdateRows(world.sql, workspaceId, at('2026-09-05T00:00Z'));
  for (const i of calls) await spend(customers, keys[i]!, usage, usageName);
  await backdate(redis, at('2026-09-10T10:00Z'));
  return { workspaceId, customers, keys };
}

async function spend(customers: Customers, { key }: TestKey, usage: string, usageName: string): Promise<void> {
  const { body } = await must(200, customers.verify({ key, billing: { usage, usageName } }, { url: world.api.url }));
  assert.is(body.status, 'VALID');
}

function book(id: string, body: object) {
  const headers = once();
  return world.call('post', `/api/v1/customer-billing/${id}/adjustment`, body, { headers });
}

async function adjust(customers: Customers, { meter }: TestKey, body: object): Promise<void> {
  await must(201, book((await customers.billing(meter)).id, body));
}

function close(workspaceId: string, body: object) {
  return world.call('post', `/api/v1/workspace/${workspaceId}/close`, body);
}

async function closed(workspaceId: string, month: string) {
  await must(200, close(workspaceId, { month }));
  await run();
  const { closing } = (await must(200, close(workspaceId, { month }))).body;
  assert.is(closing.status, 'CLOSED');
  return closing;
}

async function statement(id: string, query: string) {
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/statement?${query}`))).body.statement;
}

/** The usage of a record's month in Kathmandu, by a query of its own on the events. */
async function rawUsage(id: string, month: string): Promise<bigint> {
  const answer = await books.client.query({
    query: `
      select toString(sum(cost_micros)) from usage_events final
      where billing_id = {id:String} and ${IS_USAGE}
        and formatDateTime(if(kind = 'adjustment', toDateTime(day, 'UTC'), toDateTime(time, 'UTC') + 20700), '%Y-%m') = {month:String}`,
    query_params: { id, month },
    format: 'JSONCompactEachRow',
  });
  return BigInt((await answer.json<[string]>())[0]![0]);
}
