import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ApiError } from '../../../../shared/contract/errors.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { inTime } from '../../../../tests/helpers/in-time.ts';
import { eventually, makeWorld, once, type World } from '../../../../tests/helpers/world.ts';
import { requireFewEnded } from '../../resources/grants/grants.ts';
import type { RecordAccount } from '../../sync/accounts.ts';

// The contract's section on grants, line by line.

const test = suite('grants');
let world: World;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'granted' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(() => world?.stop());

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

test('a record has five amounts that add up, and verify answers the same', async () => {
  const { key, id, meter } = await record('10');
  await spend(key, '3');
  const end = Date.now() + HOUR;
  const { billing } = (await grant(id, { credits: '5.5', expiresAt: end, priority: 10 })).body;
  assert.equal(amountsOf(billing), ['15.5', '3', '12.5', '0', '0']);
  const answer = await spend(key, '6');
  assert.equal(amountsOf(answer.body.billing), ['15.5', '9', '6.5', '0', '0']);
  assert.equal([answer.body.billing.workspaceId, answer.body.billing.externalMeterId], [workspaceId, meter]);
  assert.equal(amountsOf(await customers.billing(meter)), ['15.5', '9', '6.5', '0', '0']);
  assert.is((await spend(key, '6.500001')).body.reason, 'CREDITS_USED_UP');
  assert.is((await spend(key, '6.5')).body.status, 'VALID');
});

test('a grant begins at once, has the priority 50 and no end unless they are given, and keeps name and metadata', async () => {
  const { id } = await record('0');
  const before = Date.now();
  const given = (await grant(id, { credits: '5', name: 'trial', metadata: { order: 7 } })).body.grant;
  assert.match(given.id, /^grant_/);
  const { createdAt: _, beginsAt, ...rest } = given;
  assert.ok(beginsAt > before - 5_000 && beginsAt < Date.now() + 5_000);
  const numbers = { usedCredits: '0', expiredCredits: '0', remainingCredits: '5' };
  assert.equal(rest, {
    id: given.id,
    billingId: id,
    credits: '5',
    name: 'trial',
    state: 'ACTIVE',
    ...numbers,
    priority: 50,
    metadata: { order: 7 },
  });
  assert.equal((await get(id, given.id)).body.grant, given);
});

test('a beginning up to 60 s in the past means now; an older one, and an end that is not after it, are refused', async () => {
  const { id } = await record('0');
  const now = Date.now();
  // A busy machine may take some of the minute.
  const late = (await grant(id, { credits: '1', beginsAt: now - 30_000 })).body.grant;
  assert.ok(late.beginsAt >= now - 1_000);
  for (const body of [
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
  ]) {
    const answer = await world.call('post', path(id), body, { headers: once() });
    assert.equal([answer.status, answer.body.error.code], [400, 40001], JSON.stringify(body));
  }
});

test('a grant needs an Idempotency-Key, and repeated with it is granted once', async () => {
  const { id, meter } = await record('0');
  const without = await world.call('post', path(id), { credits: '5' });
  assert.equal([without.status, without.body.error.code], [400, 40011]);
  const headers = { 'Idempotency-Key': 'once' };
  const first = await must(201, world.call('post', path(id), { credits: '5', priority: 7 }, { headers }));
  const again = await must(201, world.call('post', path(id), { credits: '5', priority: 7 }, { headers }));
  assert.equal(again.body, first.body);
  assert.equal(amountsOf(await customers.billing(meter)), ['5', '0', '5', '0', '0']);
});

test('lower priority is drawn first, then the one that ends first, then the older', async () => {
  const { key, id } = await record('0');
  const now = Date.now();
  const last = await granted(id, { credits: '1', priority: 60 });
  const noEnd = await granted(id, { credits: '1' });
  const later = await granted(id, { credits: '1', expiresAt: now + 2 * HOUR });
  const sooner = await granted(id, { credits: '1', expiresAt: now + HOUR });
  const younger = await granted(id, { credits: '1', expiresAt: now + HOUR });
  const first = await granted(id, { credits: '1', priority: 10 });
  for (const [i, one] of [first, sooner, younger, later, noEnd, last].entries()) {
    const { grant } = (await get(id, one)).body;
    assert.equal([grant.state, grant.usedCredits, grant.remainingCredits], ['ACTIVE', '0', '1'], `before ${i}`);
    await spend(key, '1');
    const after = (await get(id, one)).body.grant;
    assert.equal([after.state, after.usedCredits, after.remainingCredits], ['USED_UP', '1', '0'], `after ${i}`);
  }
});

test('an adjustment above 0 draws on the grants of its moment, whatever day it is booked on', async () => {
  const { id } = await record('10');
  const one = await granted(id, { credits: '5', priority: 10 });
  const day = new Date(Date.now() - 40 * 24 * HOUR).toISOString().slice(0, 10);
  const headers = { 'Idempotency-Key': `adjusted-${id}` };
  const body = { amount: '3', reason: 'it was forgotten', day };
  await must(201, world.call('post', `/api/v1/customer-billing/${id}/adjustment`, body, { headers }));
  assert.equal(await numbers(id, [one]), ['3 0 2']);
});

test('the state of a grant is the first that applies of VOIDED, EXPIRED, PENDING, USED_UP and ACTIVE', async () => {
  const { key, soon, states } = await inTime(4_000, async (soon) => {
    const { key, id } = await record('0');
    const later = Date.now() + HOUR;
    const made = [
      await granted(id, { credits: '1', expiresAt: soon, priority: 1 }),
      await granted(id, { credits: '1', expiresAt: soon, priority: 2 }),
      await granted(id, { credits: '1', beginsAt: later }),
      await granted(id, { credits: '1', priority: 3 }),
      await granted(id, { credits: '1', priority: 4 }),
    ];
    const states = async () => Promise.all(made.map(async (one) => (await must(200, get(id, one))).body.grant.state));
    await spend(key, '1');
    await must(200, voided(id, made[1]!));
    assert.equal((await states()).slice(1), ['VOIDED', 'PENDING', 'ACTIVE', 'ACTIVE']);
    return { key, soon, states };
  });
  await spend(key, '1');
  await eventually('both have ended', async () => Date.now() > soon);
  assert.equal(await states(), ['EXPIRED', 'VOIDED', 'PENDING', 'USED_UP', 'ACTIVE']);
});

test('what is left of a grant when it ends has expired, and is told for the grant and the record', async () => {
  const { key, id, meter, one } = await inTime(1_500, async (expiresAt) => {
    const made = await record('10');
    const one = await granted(made.id, { credits: '5', expiresAt, priority: 10 });
    await spend(made.key, '2');
    return { ...made, one };
  });
  await eventually('it has ended', async () => (await get(id, one)).body.grant.state === 'EXPIRED');
  const { grant } = (await get(id, one)).body;
  assert.equal([grant.usedCredits, grant.expiredCredits, grant.remainingCredits], ['2', '3', '0']);
  assert.equal(amountsOf(await customers.billing(meter)), ['15', '2', '10', '0', '3']);
  await spend(key, '1');
  assert.equal((await get(id, one)).body.grant, grant);
});

test('what ended grants gave is copied into Postgres, and copied again when credits are given back to them', async () => {
  const { id, meter, one, other } = await inTime(1_500, async (expiresAt) => {
    const made = await record('1');
    const one = await granted(made.id, { credits: '5', expiresAt, priority: 10 });
    const other = await granted(made.id, { credits: '3', priority: 20 });
    await spend(made.key, '6');
    return { ...made, one, other };
  });
  await eventually('it has ended', async () => (await get(id, one)).body.grant.state === 'EXPIRED');
  await must(200, voided(id, other));
  const copies = () => world.sql`
    select used_micros, held_micros from grant_classes where billing_id = ${id} and ends_at is not null
    union all select used_micros, held_micros from grants where id = ${other}`;
  const copied = (what: string, used: number[]) =>
    eventually(what, async () => String((await copies()).map((row) => row.usedMicros)) === String(used));
  await copied('both are copied', [5_000_000, 1_000_000]);
  const headers = { 'Idempotency-Key': `back-${id}` };
  const body = { amount: '-2.5', reason: 'r' };
  await must(201, world.call('post', `/api/v1/customer-billing/${id}/adjustment`, body, { headers }));
  await copied('what is given back is copied', [3_500_000, 0]);
  assert.equal(await numbers(id, [one, other]), ['3.5 1.5 0', '0 3 0']);
  assert.equal(amountsOf(await customers.billing(meter)), ['9', '3.5', '1', '0', '4.5']);
});

test('what ended grants gave is copied again when a late capture gives credits back to them', async () => {
  const { id, one, holdId } = await inTime(2_500, async (expiresAt) => {
    const { key, id } = await record('1');
    await eventually('holds can be made', async () => (await hold(key, '0')).status === 200);
    const one = await granted(id, { credits: '5', expiresAt, priority: 10 });
    const { body } = await must(200, hold(key, '4'));
    return { id, one, holdId: body.hold.id };
  });
  const copied = async () => {
    const [row] =
      await world.sql`select used_micros from grant_classes where billing_id = ${id} and told_turn is not null`;
    return row?.usedMicros;
  };
  await eventually('its charge is copied', async () => (await copied()) === 4_000_000);
  const path = `${world.verify!.url}/api/v1/usage/capture`;
  await must(200, world.call('post', path, { holdId, usage: '1' }));
  await eventually('what is given back is copied', async () => (await copied()) === 1_000_000);
  assert.equal(await numbers(id, [one]), ['1 4 0']);
});

test('a grant begins at its time, is PENDING before, and counts in total from then on', async () => {
  const { id, meter, one } = await inTime(1_500, async (beginsAt) => {
    const made = await record('1');
    const { body } = await grant(made.id, { credits: '5', beginsAt, expiresAt: beginsAt + HOUR });
    assert.equal([body.grant.state, body.grant.beginsAt], ['PENDING', beginsAt]);
    assert.equal(amountsOf(body.billing), ['1', '0', '1', '0', '0']);
    assert.equal(await ids(made.id, 'PENDING'), [body.grant.id]);
    return { ...made, one: body.grant.id as string };
  });
  await eventually('it has begun', async () => (await get(id, one)).body.grant.state === 'ACTIVE');
  assert.equal(amountsOf(await customers.billing(meter)), ['6', '0', '6', '0', '0']);
  const plain = await granted(id, { credits: '2', beginsAt: Date.now() + 1_000 });
  await eventually('the plain one, too', async () => (await get(id, plain)).body.grant.state === 'ACTIVE');
  const refill = { workspaceId, externalMeterId: meter, refill: 3 };
  await must(200, world.call('post', '/api/v1/customer-billing/refill', refill));
  assert.equal(amountsOf(await customers.billing(meter)), ['11', '0', '11', '0', '0']);
  const { ledger } = (await must(200, world.call('get', `/api/v1/customer-billing/${id}/ledger`))).body;
  assert.equal(
    ledger.map((row: Record<string, string>) => [row.amount, row.totalCredits]),
    [
      ['2', '3'],
      ['3', '6'],
    ],
  );
});

test('a new grant covers first what is overdrawn', async () => {
  const { key, id, meter } = await record('1');
  await must(200, world.call('patch', `/api/v1/customer-billing/${id}`, { allowOverages: true }));
  await spend(key, '3');
  const { grant: made, billing } = (await grant(id, { credits: '5', priority: 80 })).body;
  assert.equal([made.usedCredits, made.remainingCredits, billing.availableCredits], ['2', '3', '3']);
  assert.equal((await get(id, made.id)).body.grant, made);
  assert.equal(amountsOf(await customers.billing(meter)), ['6', '3', '3', '0', '0']);
});

test('what is left of a voided grant is gone at once; voided again it answers the same', async () => {
  const { key, id, meter } = await record('10');
  const one = await granted(id, { credits: '5', priority: 10 });
  await spend(key, '2');
  const first = await must(200, voided(id, one, { reason: 'ordered twice' }));
  const { state, usedCredits, expiredCredits, remainingCredits, reason } = first.body.grant;
  assert.equal(
    [state, usedCredits, expiredCredits, remainingCredits, reason],
    ['VOIDED', '2', '3', '0', 'ordered twice'],
  );
  assert.equal(amountsOf(first.body.billing), ['15', '2', '10', '0', '3']);
  assert.equal(amountsOf(await customers.billing(meter)), ['15', '2', '10', '0', '3']);
  const again = await must(200, voided(id, one));
  assert.equal(again.body, first.body);
  assert.is((await spend(key, '10.1')).body.reason, 'CREDITS_USED_UP');
  assert.is((await spend(key, '10')).body.status, 'VALID');
});

test('a void takes what is left of one grant of a class, and leaves the others theirs', async () => {
  const { key, id, meter } = await record('1');
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
  assert.equal(amountsOf(await customers.billing(meter)), ['7', '4', '1', '0', '2']);
});

test('grants, refills and voids of one record at the same time answer as if they came one after the other', async () => {
  const { key, id, meter } = await record('1');
  const four = async <Result>(call: () => Promise<Result>) => Promise.all([call(), call(), call(), call()]);
  const made = await four(async () => (await grant(id, { credits: '3', priority: 10 })).body);
  assert.equal(new Set(made.map(({ billing }) => billing.totalCredits)), new Set(['4', '7', '10', '13']));
  const refill = { workspaceId, externalMeterId: meter, refill: '2' };
  const refills = await four(() => must(200, world.call('post', '/api/v1/customer-billing/refill', refill)));
  assert.equal(new Set(refills.map(({ body }) => body.billing.totalCredits)), new Set(['15', '17', '19', '21']));
  await spend(key, '5');
  const voids = await Promise.all(made.map(async (one) => (await must(200, voided(id, one.grant.id))).body));
  assert.equal(
    voids.map((one) => `${one.grant.usedCredits} ${one.grant.expiredCredits} ${one.grant.remainingCredits}`),
    await numbers(
      id,
      made.map((one) => one.grant.id),
    ),
  );
  const expired = voids.map(({ billing }) => Number(billing.expiredCredits)).toSorted((a, b) => a - b);
  assert.is(expired.at(-1), 7);
  assert.equal(amountsOf(await customers.billing(meter)), ['21', '5', '9', '0', '7']);
});

test('a void of a pending grant never counts in total, and of an expired one is refused', async () => {
  const { id, meter } = await record('1');
  const pending = await granted(id, { credits: '5', beginsAt: Date.now() + HOUR });
  const answer = await must(200, voided(id, pending));
  const { state, usedCredits, expiredCredits, remainingCredits } = answer.body.grant;
  assert.equal([state, usedCredits, expiredCredits, remainingCredits], ['VOIDED', '0', '0', '0']);
  assert.equal(amountsOf(await customers.billing(meter)), ['1', '0', '1', '0', '0']);
  assert.equal((await must(200, voided(id, pending))).body, answer.body);
  const ended = await inTime(1_000, (expiresAt) => granted(id, { credits: '1', expiresAt }));
  await eventually('it has ended', async () => (await get(id, ended)).body.grant.state === 'EXPIRED');
  const refused = await voided(id, ended);
  assert.equal([refused.status, refused.body.error.code], [409, 40942]);
});

test('first credits and refills are grants of priority 50 without an end, listed with the others and voided like them', async () => {
  const { key, id, meter } = await record('10');
  const refill = { workspaceId, externalMeterId: meter, refill: '2.5' };
  await must(200, world.call('post', '/api/v1/customer-billing/refill', refill));
  await grant(id, { credits: '1' });
  await spend(key, '11');
  const { grants } = (await must(200, world.call('get', `${path(id)}s`))).body as { grants: Grant[] };
  assert.equal(
    grants.map((one) => [one.credits, one.state, one.usedCredits, one.remainingCredits, one.priority, one.expiresAt]),
    [
      ['10', 'USED_UP', '10', '0', 50, undefined],
      ['2.5', 'ACTIVE', '1', '1.5', 50, undefined],
      ['1', 'ACTIVE', '0', '1', 50, undefined],
    ],
  );
  const [first, second] = grants;
  await must(200, voided(id, second!.id));
  assert.equal(amountsOf(await customers.billing(meter)), ['13.5', '11', '1', '0', '1.5']);
  await must(200, voided(id, first!.id));
  assert.equal(
    await numbers(
      id,
      grants.map((one) => one.id),
    ),
    ['10 0 0', '1 1.5 0', '0 0 1'],
  );
  await must(200, world.call('post', '/api/v1/customer-billing/refill', refill));
  assert.equal(amountsOf(await customers.billing(meter)), ['16', '11', '3.5', '0', '1.5']);
  const { ledger } = (await must(200, world.call('get', `/api/v1/customer-billing/${id}/ledger`))).body;
  assert.equal(
    ledger.map((row: { totalCredits: string }) => row.totalCredits),
    ['12.5', '13.5', '16'],
  );
});

test('grants are listed in pages and by state', async () => {
  const { key, id } = await record('1');
  const made: string[] = [];
  for (let i = 0; i < 5; i++) made.push(await granted(id, { credits: '1', priority: 10 }));
  await spend(key, '2');
  const states = ['USED_UP', 'USED_UP', 'ACTIVE', 'ACTIVE', 'ACTIVE'];
  for (const [i, one] of made.entries()) assert.is((await get(id, one)).body.grant.state, states[i]);
  assert.equal(await ids(id, 'USED_UP'), made.slice(0, 2));
  assert.equal((await ids(id, 'ACTIVE')).slice(1), made.slice(2));
  const { body: page } = await must(200, world.call('get', `${path(id)}s?limit=2&state=ACTIVE`));
  assert.is(page.grants.length, 2);
  const cursor = encodeURIComponent(page.nextCursor as string);
  const { body: rest } = await must(200, world.call('get', `${path(id)}s?limit=2&state=ACTIVE&cursor=${cursor}`));
  assert.equal(
    rest.grants.map((one: Grant) => one.id),
    made.slice(3),
  );
});

test('a record has at most 16 classes that have not ended; grants of one that it has, and refills, go on', async () => {
  const { id, meter } = await record('1');
  for (let priority = 0; priority < 15; priority++) await granted(id, { credits: '1', priority });
  const refused = await grant(id, { credits: '1', priority: 90 }, 409);
  assert.is(refused.body.error.code, 40940);
  await granted(id, { credits: '1', priority: 3 });
  await granted(id, { credits: '1' });
  const refill = { workspaceId, externalMeterId: meter, refill: 1 };
  await must(200, world.call('post', '/api/v1/customer-billing/refill', refill));
  assert.equal(amountsOf(await customers.billing(meter)), ['19', '0', '19', '0', '0']);
});

test('a record has at most 64 grants that have yet to begin', async () => {
  const { id } = await record('1');
  const beginsAt = Date.now() + HOUR;
  for (let i = 0; i < 64; i++) await granted(id, { credits: '1', beginsAt });
  const refused = await grant(id, { credits: '1', beginsAt }, 409);
  assert.is(refused.body.error.code, 40941);
  await granted(id, { credits: '1' });
});

test('of a record at most 200 grants end or are voided within a day: beyond that none is made or voided, and all else goes on', async () => {
  const { key, id, meter } = await record('1');
  const kept = await granted(id, { credits: '1', priority: 90 });
  for (let i = 0; i < 200; i++) await must(200, voided(id, await granted(id, { credits: '1', priority: 10 })));
  const schedule = { credits: '1', every: 'day' };
  for (const refused of [
    grant(id, { credits: '1' }, 409),
    must(409, voided(id, kept)),
    must(409, world.call('post', `/api/v1/customer-billing/${id}/grant-schedule`, schedule)),
  ])
    assert.is((await refused).body.error.code, 40944);
  const refill = { workspaceId, externalMeterId: meter, refill: 1 };
  await must(200, world.call('post', '/api/v1/customer-billing/refill', refill));
  assert.is((await spend(key, '3')).body.status, 'VALID');
});

test('grants that ended longer than a day ago keep no other from ending', () => {
  const balance = { atMs: 2 * DAY } as RecordAccount['balance'];
  const ended = Array.from({ length: 200 }, (_, i) => ({ ref: `${i}`, atMs: DAY, usedMicros: 0, heldMicros: 0 }));
  const state = { ended } as RecordAccount['state'];
  requireFewEnded({ balance, state });
  ended.forEach((one) => (one.atMs += 1));
  assert.throws(
    () => requireFewEnded({ balance, state }),
    ({ errorName }: ApiError) => errorName === 'grant_ended_limit_reached',
  );
});

test('all grants ever are at most 9000000000 credits, those to come and voided ones included', async () => {
  const { id, meter } = await record('1');
  await granted(id, { credits: '8999999990', priority: 10 });
  await must(200, voided(id, await granted(id, { credits: '4', priority: 20 })));
  await granted(id, { credits: '4', beginsAt: Date.now() + HOUR });
  const refused = await grant(id, { credits: '1.000001' }, 400);
  assert.is(refused.body.error.code, 40006);
  const refill = { workspaceId, externalMeterId: meter, refill: '1.000001' };
  assert.is((await world.call('post', '/api/v1/customer-billing/refill', refill)).body.error.code, 40006);
  await granted(id, { credits: '1' });
});

test('grants and voids are in the audit log', async () => {
  const { id } = await record('1');
  const one = await granted(id, { credits: '5', priority: 10 });
  await must(200, voided(id, one, { reason: 'r' }));
  const { auditLog } = (await must(200, world.call('get', `/api/v1/audit-log?resourceId=${one}`))).body;
  assert.equal(
    auditLog.map(({ operation, resource, before, after }: Record<string, any>) => [
      operation,
      resource,
      before?.credits,
      after.voidedAt !== undefined,
    ]),
    [
      ['POST /api/v1/customer-billing/{bid}/grant', 'grant', undefined, false],
      ['POST /api/v1/customer-billing/{bid}/grant/{gid}/void', 'grant', '5', true],
    ],
  );
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
  const { key, id, ending, other } = await inTime(1_500, async (expiresAt) => {
    const made = await record('10');
    const ending = await granted(made.id, { credits: '5', expiresAt, priority: 10 });
    const other = await granted(made.id, { credits: '4', priority: 20 });
    await granted(made.id, { credits: '3', priority: 70 });
    await spend(made.key, '6');
    return { ...made, ending, other };
  });
  await eventually('it has ended', async () => (await get(id, ending)).body.grant.state === 'EXPIRED');
  await must(200, voided(id, other));
  await spend(key, '2');
  const path = `/api/v1/customer-billing/${id}/reconciliation`;
  const proof = () =>
    eventually('it can be proved', async () => {
      const { reconciliation } = (await must(200, world.call('get', path))).body;
      return reconciliation.status !== 'ON_ITS_WAY' && reconciliation.grants ? reconciliation : undefined;
    });
  const proved = await proof();
  const amounts = { totalCredits: '22', grantedCredits: '22', expiredCredits: '3', grantsExpiredCredits: '3' };
  assert.equal([proved.status, proved.grants], ['EXACT', { ...amounts, difference: '0' }]);
  await world.sql`update grant_classes set used_micros = used_micros - 1000000 where billing_id = ${id} and ends_at is not null`;
  const wrong = await proof();
  assert.equal([wrong.status, wrong.grants.grantsExpiredCredits, wrong.grants.difference], ['MISSING', '4', '1']);
});

test('what is unknown has no grants', async () => {
  const { id } = await record('1');
  assert.is((await get(id, 'grant_01h455vb4pex5vsknk084sn02q')).body.error.code, 40430);
  assert.is((await get(id, 'x')).body.error.code, 40430);
  const other = await record('1');
  const one = await granted(other.id, { credits: '1', priority: 10 });
  assert.is((await get(id, one)).body.error.code, 40430);
  assert.is((await voided(id, one)).body.error.code, 40430);
});

test.run();

type Grant = Record<
  'id' | 'credits' | 'state' | 'usedCredits' | 'remainingCredits' | 'priority' | 'expiresAt',
  unknown
> & {
  id: string;
};
type Billing = Record<'totalCredits' | 'usedCredits' | 'availableCredits' | 'heldCredits' | 'expiredCredits', string>;

let keys = 0;

async function record(totalCredits: string) {
  const made = await customers.meteredKey(totalCredits);
  return { ...made, id: (await customers.billing(made.meter)).id };
}

function path(id: string): string {
  return `/api/v1/customer-billing/${id}/grant`;
}

function grant(id: string, body: object, status = 201) {
  return must(status, world.call('post', path(id), body, { headers: { 'Idempotency-Key': `grant-${keys++}` } }));
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

async function ids(id: string, state: string): Promise<string[]> {
  const { grants } = (await must(200, world.call('get', `${path(id)}s?state=${state}`))).body;
  return grants.map((one: Grant) => one.id);
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

function spend(key: string, usage: string) {
  return must(200, customers.verify({ key, billing: { usage } }));
}

function hold(key: string, usage: string) {
  return customers.verify({ key, billing: { usage, hold: { expiresIn: 1, onExpiry: 'charge' } } });
}

function amountsOf(billing: object): string[] {
  const { totalCredits, usedCredits, availableCredits, heldCredits, expiredCredits } = billing as Billing;
  return [totalCredits, usedCredits, availableCredits, heldCredits, expiredCredits];
}
