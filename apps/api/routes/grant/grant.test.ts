import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey } from '../../../../shared/books/billing-refs.ts';
import { END } from '../../../../shared/stores/fields.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { passTime, recordOf } from '../../../../tests/helpers/pass-time.ts';
import { connectRedisOf } from '../../../../tests/helpers/world-redis.ts';
import { joinWorld, once, type World } from '../../../../tests/helpers/world.ts';
import { copyRecord } from '../../sync/ended-grants.ts';

// The contract's section on grants, by what the api answers. What is drawn, and when, is the model's (tests/accounts).

const test = suite('grants');
const HOUR = 3_600_000;
let world: World;
let redis: ShardedRedis;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  world = await joinWorld();
  redis = await connectRedisOf(world);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'granted' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

test('a record has five amounts that add up, and verify answers the same', async () => {
  const { key, id, meter } = await record('10');
  await spend(key, '3');
  const { billing } = (await grant(id, { credits: '5.5', expiresAt: Date.now() + HOUR, priority: 10 })).body;
  assert.equal(amountsOf(billing), ['15.5', '3', '12.5', '0', '0']);
  const answer = (await spend(key, '6')).body.billing;
  assert.equal(amountsOf(answer), ['15.5', '9', '6.5', '0', '0']);
  assert.equal([answer.workspaceId, answer.externalMeterId], [workspaceId, meter]);
  assert.equal(await amounts(id), ['15.5', '9', '6.5', '0', '0']);
  assert.is((await spend(key, '6.500001')).body.reason, 'CREDITS_USED_UP');
  assert.is((await spend(key, '6.5')).body.status, 'VALID');
});

test('a grant begins at once, has the priority 50 and no end unless they are given, and is made once under its Idempotency-Key', async () => {
  const { id } = await record('0');
  const body = { credits: '5', name: 'trial', metadata: { order: 7 } };
  const headers = once();
  const first = await must(201, world.call('post', path(id), body, { headers }));
  const { createdAt: _, beginsAt, ...rest } = first.body.grant;
  assert.match(rest.id, /^grant_/);
  const amountsAtFirst = { usedCredits: '0', expiredCredits: '0', remainingCredits: '5' };
  assert.equal(rest, { id: rest.id, billingId: id, ...body, ...amountsAtFirst, state: 'ACTIVE', priority: 50 });
  assert.equal((await get(id, rest.id)).body.grant, first.body.grant);
  assert.equal((await must(201, world.call('post', path(id), body, { headers }))).body, first.body);
  assert.equal(await amounts(id), ['5', '0', '5', '0', '0']);
  assert.is((await world.call('post', path(id), body)).body.error.code, 40011, 'a key is required');

  const now = Date.now();
  const late = (await grant(id, { credits: '1', beginsAt: now - 30_000 })).body.grant;
  assert.ok(late.beginsAt >= beginsAt, 'up to 60 s in the past means now');
  for (const wrong of [
    { credits: '1', beginsAt: now - 70_000 },
    { credits: '1', expiresAt: now - 1_000 },
    { credits: '1', beginsAt: now - 50_000, expiresAt: now - 40_000 },
    { credits: '1', beginsAt: now + HOUR, expiresAt: now + HOUR },
    { credits: '1', priority: 101 },
    { credits: '1', priority: -1 },
    { credits: '1', priority: 1.5 },
    { credits: '0' },
    { credits: '9000000000.000001' },
    { credits: 5 },
    {},
  ])
    assert.is((await grant(id, wrong, 400)).body.error.code, 40001, JSON.stringify(wrong));
});

test('lower priority is drawn first, then the one that ends first, then the older; an adjustment draws as a call does', async () => {
  const { key, id } = await record('0');
  const now = Date.now();
  const last = await granted(id, { credits: '1', priority: 60 });
  const noEnd = await granted(id, { credits: '1' });
  const later = await granted(id, { credits: '1', expiresAt: now + 2 * HOUR });
  const sooner = await granted(id, { credits: '1', expiresAt: now + HOUR });
  const younger = await granted(id, { credits: '1', expiresAt: now + HOUR });
  const first = await granted(id, { credits: '1', priority: 10 });
  const inOrder = [first, sooner, younger, later, noEnd, last];
  for (let used = 1; used < 6; used++) {
    if (used === 4) await adjust(id, '1', { day: '2026-01-31' });
    else await spend(key, '1');
    assert.equal(
      await numbers(id, inOrder),
      inOrder.map((_, i) => (i < used ? '1 0 0' : '0 0 1')),
    );
  }
});

test('what is left of a grant when it ends has expired, is copied into Postgres, and copied again when credits are given back to it', async () => {
  const { key, id } = await record('1');
  const one = await granted(id, { credits: '5', expiresAt: Date.now() + HOUR, priority: 10 });
  const other = await granted(id, { credits: '3', priority: 20 });
  await spend(key, '6');
  await passTime(world, redis, id, 2 * HOUR);
  await must(200, voided(id, other));
  const copies = async () => {
    await copyRecord(world.sql, redis, await recordOf(world.sql, id));
    const rows = await world.sql`
      select used_micros from grant_classes where billing_id = ${id} and ends_at is not null
      union all select used_micros from grants where id = ${other}`;
    return rows.map((row) => row.usedMicros);
  };
  assert.equal(await copies(), [5_000_000, 1_000_000]);
  await adjust(id, '-2.5');
  assert.equal(await copies(), [3_500_000, 0]);
  assert.equal(await numbers(id, [one, other]), ['3.5 1.5 0', '0 3 0']);
  assert.equal(await amounts(id), ['9', '3.5', '1', '0', '4.5']);
  assert.equal((await get(id, one)).body.grant.state, 'EXPIRED');
  assert.is((await voided(id, one)).body.error.code, 40942, 'what has ended is not voided');
});

test('what an ended grant gave is copied again when a late capture gives credits back to it', async () => {
  const { key, id } = await record('1');
  const one = await granted(id, { credits: '5', expiresAt: Date.now() + HOUR, priority: 10 });
  const holdId = await customers.hold({ key }, '4', { expiresIn: 600, onExpiry: 'charge' });
  await passTime(world, redis, id, 2 * HOUR);
  const copied = async () => {
    await copyRecord(world.sql, redis, await recordOf(world.sql, id));
    const [row] = await world.sql`
      select used_micros from grant_classes where billing_id = ${id} and told_turn is not null`;
    return row?.usedMicros;
  };
  assert.is(await copied(), 4_000_000);
  await must(200, world.call('post', `${world.verify!.url}/api/v1/usage/capture`, { holdId, usage: '1' }));
  assert.is(await copied(), 1_000_000);
  assert.equal(await numbers(id, [one]), ['1 4 0']);
});

test('a grant begins at its time, is PENDING before, and counts in total and in the ledger from then on', async () => {
  const { id, meter } = await record('1');
  const beginsAt = Date.now() + HOUR;
  const { body } = await grant(id, { credits: '5', beginsAt, expiresAt: beginsAt + 5 * HOUR });
  const plain = await granted(id, { credits: '2', beginsAt });
  assert.equal([body.grant.state, body.grant.beginsAt], ['PENDING', beginsAt]);
  assert.equal(amountsOf(body.billing), ['1', '0', '1', '0', '0']);
  assert.equal(await ids(id, 'PENDING'), [body.grant.id, plain]);
  await passTime(world, redis, id, 2 * HOUR);
  assert.equal((await ids(id, 'ACTIVE')).slice(1), [body.grant.id, plain]);
  assert.equal(await amounts(id), ['8', '0', '8', '0', '0']);
  await refill(meter, '3');
  assert.equal(await amounts(id), ['11', '0', '11', '0', '0']);
  assert.equal(await ledger(id), ['2 3', '3 6']);
});

test('a new grant covers first what is overdrawn', async () => {
  const { key, id } = await record('1');
  await must(200, world.call('patch', `/api/v1/customer-billing/${id}`, { allowOverages: true }));
  await spend(key, '3');
  const { grant: made, billing } = (await grant(id, { credits: '5', priority: 80 })).body;
  assert.equal([made.usedCredits, made.remainingCredits, billing.availableCredits], ['2', '3', '3']);
  assert.equal((await get(id, made.id)).body.grant, made);
  assert.equal(await amounts(id), ['6', '3', '3', '0', '0']);
});

test('what is left of a voided grant is gone at once; voided again it answers the same; the audit log has it once', async () => {
  const { key, id } = await record('10');
  const one = await granted(id, { credits: '5', priority: 10 });
  await spend(key, '2');
  const first = await must(200, voided(id, one, { reason: 'ordered twice' }));
  const { state, usedCredits, expiredCredits, remainingCredits, reason } = first.body.grant;
  const told = [state, usedCredits, expiredCredits, remainingCredits, reason];
  assert.equal(told, ['VOIDED', '2', '3', '0', 'ordered twice']);
  assert.equal(amountsOf(first.body.billing), ['15', '2', '10', '0', '3']);
  assert.equal(await amounts(id), ['15', '2', '10', '0', '3']);
  assert.equal((await must(200, voided(id, one))).body, first.body);
  assert.is((await spend(key, '10.1')).body.reason, 'CREDITS_USED_UP');
  assert.is((await spend(key, '10')).body.status, 'VALID');
  const { auditLog } = (await must(200, world.call('get', `/api/v1/audit-log?resourceId=${one}`))).body;
  assert.equal(
    auditLog.map(({ operation, before, after }: any) => [operation, before?.credits, after.voidedAt !== undefined]),
    [
      ['POST /api/v1/customer-billing/{bid}/grant', undefined, false],
      ['POST /api/v1/customer-billing/{bid}/grant/{gid}/void', '5', true],
    ],
  );
  const other = await record('1');
  for (const answer of [await get(other.id, one), await voided(other.id, one), await get(id, 'x')])
    assert.is(answer.body.error.code, 40430, 'it is a grant of its own record alone');
});

test('a void takes what is left of one grant of a class, and leaves the others theirs', async () => {
  const { key, id } = await record('1');
  const [a, b, c] = [
    await granted(id, { credits: '2', priority: 10 }),
    await granted(id, { credits: '2', priority: 10 }),
    await granted(id, { credits: '2', priority: 10 }),
  ];
  await spend(key, '3');
  await must(200, voided(id, b));
  assert.equal(await numbers(id, [a, b, c]), ['2 0 0', '1 1 0', '0 0 2']);
  await spend(key, '1');
  assert.equal(await numbers(id, [a, b, c]), ['2 0 0', '1 1 0', '1 0 1']);
  await must(200, voided(id, a));
  await must(200, voided(id, c));
  assert.equal(await numbers(id, [a, b, c]), ['2 0 0', '1 1 0', '1 1 0']);
  assert.equal(await amounts(id), ['7', '4', '1', '0', '2']);
});

test('a void of a pending grant never counts in total', async () => {
  const { id } = await record('1');
  const pending = await granted(id, { credits: '5', beginsAt: Date.now() + HOUR });
  const answer = await must(200, voided(id, pending));
  assert.equal([answer.body.grant.state, ...(await numbers(id, [pending]))], ['VOIDED', '0 0 0']);
  assert.equal(await amounts(id), ['1', '0', '1', '0', '0']);
  assert.equal((await must(200, voided(id, pending))).body, answer.body);
});

test('grants, refills and voids of one record at the same time answer as if they came one after the other', async () => {
  const { key, id, meter } = await record('1');
  const four = async <Result>(call: () => Promise<Result>) => Promise.all([call(), call(), call(), call()]);
  const totals = (answers: { billing: { totalCredits: string } }[]) =>
    new Set(answers.map(({ billing }) => billing.totalCredits));
  const made = await four(async () => (await grant(id, { credits: '3', priority: 10 })).body);
  assert.equal(totals(made), new Set(['4', '7', '10', '13']));
  const refills = await four(async () => (await refill(meter, '2')).body);
  assert.equal(totals(refills), new Set(['15', '17', '19', '21']));
  await spend(key, '5');
  const voids = await Promise.all(made.map(async (one) => (await must(200, voided(id, one.grant.id))).body));
  const expired = voids.map(({ billing }) => Number(billing.expiredCredits));
  assert.is(Math.max(...expired), 7);
  assert.equal(await amounts(id), ['21', '5', '9', '0', '7']);
});

test('first credits and refills are grants of priority 50 without an end, listed with the others and voided like them', async () => {
  const { key, id, meter } = await record('10');
  await refill(meter, '2.5');
  await grant(id, { credits: '1' });
  await spend(key, '11');
  const { grants } = (await must(200, world.call('get', `${path(id)}s`))).body;
  assert.equal(
    grants.map((one: any) => [one.credits, one.state, one.usedCredits, one.priority, one.expiresAt]),
    [
      ['10', 'USED_UP', '10', 50, undefined],
      ['2.5', 'ACTIVE', '1', 50, undefined],
      ['1', 'ACTIVE', '0', 50, undefined],
    ],
  );
  const all: string[] = grants.map((one: { id: string }) => one.id);
  await must(200, voided(id, all[1]!));
  assert.equal(await amounts(id), ['13.5', '11', '1', '0', '1.5']);
  await must(200, voided(id, all[0]!));
  assert.equal(await numbers(id, all), ['10 0 0', '1 1.5 0', '0 0 1']);
  await refill(meter, '2.5');
  assert.equal(await amounts(id), ['16', '11', '3.5', '0', '1.5']);
  assert.equal(await ledger(id), ['2.5 12.5', '1 13.5', '2.5 16']);
});

test('grants are listed in pages and by state', async () => {
  const { key, id } = await record('1');
  const made: string[] = [];
  for (let i = 0; i < 5; i++) made.push(await granted(id, { credits: '1', priority: 10 }));
  await spend(key, '2');
  assert.equal(await ids(id, 'USED_UP'), made.slice(0, 2));
  assert.equal((await ids(id, 'ACTIVE')).slice(1), made.slice(2));
  const page = async (more = '') =>
    (await must(200, world.call('get', `${path(id)}s?limit=2&state=ACTIVE${more}`))).body;
  const first = await page();
  const rest = await page(`&cursor=${encodeURIComponent(first.nextCursor as string)}`);
  assert.equal([first.grants.length, ...rest.grants.map((one: { id: string }) => one.id)], [2, ...made.slice(3)]);
});

test('a record has at most 16 classes that have not ended, and 64 grants to come; grants of a class that it has, and refills, go on', async () => {
  const { id, meter } = await record('1');
  for (let priority = 0; priority < 15; priority++) await granted(id, { credits: '1', priority });
  assert.is((await grant(id, { credits: '1', priority: 90 }, 409)).body.error.code, 40940);
  await granted(id, { credits: '1', priority: 3 });
  await refill(meter, '1');

  const toCome = { credits: '1', beginsAt: Date.now() + HOUR };
  await copyGrant(await granted(id, toCome), 62);
  await granted(id, toCome);
  assert.is((await grant(id, toCome, 409)).body.error.code, 40941);
  await granted(id, { credits: '1' });
  assert.equal(await amounts(id), ['19', '0', '19', '0', '0']);
});

test('once 200 grants of a record ended or were voided within a day none is made or voided, and all else goes on', async () => {
  const { key, id, meter } = await record('1');
  const kept = await granted(id, { credits: '1', priority: 90 });
  await must(200, voided(id, await granted(id, { credits: '1', priority: 10 })));
  await repeatEnded(id, 199);
  const schedule = { credits: '1', every: 'day' };
  for (const refused of [
    grant(id, { credits: '1' }, 409),
    must(409, voided(id, kept)),
    must(409, world.call('post', `/api/v1/customer-billing/${id}/grant-schedule`, schedule)),
  ])
    assert.is((await refused).body.error.code, 40944);
  await refill(meter, '1');
  assert.is((await spend(key, '3')).body.status, 'VALID');
});

test('all grants ever are at most 9000000000 credits, those to come and voided ones included', async () => {
  const { id, meter } = await record('1');
  await granted(id, { credits: '8999999990', priority: 10 });
  await must(200, voided(id, await granted(id, { credits: '4', priority: 20 })));
  await granted(id, { credits: '4', beginsAt: Date.now() + HOUR });
  assert.is((await grant(id, { credits: '1.000001' }, 400)).body.error.code, 40006);
  assert.is((await refill(meter, '1.000001', 400)).body.error.code, 40006);
  await granted(id, { credits: '1' });
});

test('grants of a deleted workspace can be read, and no longer made or voided', async () => {
  const other = (await world.call('post', '/api/v1/workspace', { name: 'gone' })).body.workspace.id as string;
  const fields = { workspaceId: other, externalMeterId: 'm', totalCredits: '3' };
  const { id } = (await must(201, world.call('post', '/api/v1/customer-billing', fields))).body.billing;
  const one = await granted(id, { credits: '5', priority: 10 });
  await must(200, world.call('delete', `/api/v1/workspace/${other}`));
  assert.is((await grant(id, { credits: '5' }, 409)).body.error.code, 40907);
  assert.is((await voided(id, one)).body.error.code, 40907);
  assert.is((await must(200, get(id, one))).body.grant.remainingCredits, '5');
});

test('reconcile proves the five amounts of a record by its grants, and finds what is not theirs', async () => {
  const { key, id } = await record('10');
  await granted(id, { credits: '5', expiresAt: Date.now() + HOUR, priority: 10 });
  const other = await granted(id, { credits: '4', priority: 20 });
  await granted(id, { credits: '3', priority: 70 });
  await spend(key, '6');
  await passTime(world, redis, id, 2 * HOUR);
  await must(200, voided(id, other));
  await spend(key, '2');
  await copyRecord(world.sql, redis, await recordOf(world.sql, id));
  await world.booked();
  const proof = async () =>
    (await must(200, world.call('get', `/api/v1/customer-billing/${id}/reconciliation`))).body.reconciliation;
  const told = { totalCredits: '22', grantedCredits: '22', expiredCredits: '3', grantsExpiredCredits: '3' };
  const proved = await proof();
  assert.equal([proved.status, proved.grants], ['EXACT', { ...told, difference: '0' }]);
  await world.sql`update grant_classes set used_micros = used_micros - 1000000 where billing_id = ${id} and ends_at is not null`;
  const wrong = await proof();
  assert.equal([wrong.status, wrong.grants.grantsExpiredCredits, wrong.grants.difference], ['MISSING', '4', '1']);
});

test.run();

async function record(totalCredits: string) {
  const made = await customers.meteredKey(totalCredits);
  return { ...made, id: (await customers.billing(made.meter)).id };
}

function path(id: string): string {
  return `/api/v1/customer-billing/${id}/grant`;
}

function grant(id: string, body: object, status = 201) {
  return must(status, world.call('post', path(id), body, { headers: once() }));
}

async function granted(id: string, body: object): Promise<string> {
  return (await grant(id, body)).body.grant.id;
}

function get(id: string, grantId: string) {
  return world.call('get', `${path(id)}/${grantId}`);
}

function voided(id: string, grantId: string, body?: object) {
  return world.call('post', `${path(id)}/${grantId}/void`, body);
}

function refill(externalMeterId: string, amount: string, status = 200) {
  const body = { workspaceId, externalMeterId, refill: amount };
  return must(status, world.call('post', '/api/v1/customer-billing/refill', body));
}

function adjust(id: string, amount: string, more: object = {}) {
  const body = { amount, reason: 'r', ...more };
  return must(201, world.call('post', `/api/v1/customer-billing/${id}/adjustment`, body, { headers: once() }));
}

function spend(key: string, usage: string) {
  return must(200, customers.verify({ key, billing: { usage } }));
}

async function ids(id: string, state: string): Promise<string[]> {
  const { grants } = (await must(200, world.call('get', `${path(id)}s?state=${state}`))).body;
  return grants.map((one: { id: string }) => one.id);
}

/** Used, expired and remaining of some grants. */
async function numbers(id: string, of: string[]): Promise<string[]> {
  const found: string[] = [];
  for (const one of of) {
    const { usedCredits, expiredCredits, remainingCredits } = (await must(200, get(id, one))).body.grant;
    found.push(`${usedCredits} ${expiredCredits} ${remainingCredits}`);
  }
  return found;
}

async function ledger(id: string): Promise<string[]> {
  const { body } = await must(200, world.call('get', `/api/v1/customer-billing/${id}/ledger`));
  return body.ledger.map((row: Record<string, string>) => `${row.amount} ${row.totalCredits}`);
}

async function amounts(id: string): Promise<string[]> {
  return amountsOf((await must(200, world.call('get', `/api/v1/customer-billing/${id}`))).body.billing);
}

/** Total, used, available, held and expired. */
function amountsOf(billing: Record<string, string>): string[] {
  return ['total', 'used', 'available', 'held', 'expired'].map((name) => billing[`${name}Credits`]!);
}

/** Stores so many more grants like one. */
async function copyGrant(id: string, times: number): Promise<void> {
  await world.sql`
    insert into grants select (jsonb_populate_record(g, jsonb_build_object('id', 'grant_' || lpad(i::text, 26, '0')))).*
    from grants g, generate_series(1, ${times}::int) i where g.id = ${id}`;
}

/** As if what a record's account has of its one ended grant had happened so many times more. */
async function repeatEnded(id: string, times: number): Promise<void> {
  const record = await recordOf(world.sql, id);
  const { client } = redis.node(record.shard);
  const fields = (await client.hget(billingKey(record), 't'))!.split(END);
  const [classes = 0, pins = 0, pending = 0, ended = 0] = fields.slice(7, 11).map(Number);
  assert.is(ended, 1);
  const at = 12 + 8 * classes + 2 * pins + 10 * pending;
  const [name, ...rest] = fields.slice(at, at + 5);
  fields.splice(at, 0, ...Array.from({ length: times }, (_, i) => [`${name}${i}`, ...rest]).flat());
  fields[10] = String(ended + times);
  await client.hset(billingKey(record), 't', fields.join(END));
}
