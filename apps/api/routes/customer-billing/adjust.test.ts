import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { eventually, makeWorld, PATIENT, wireTo, type World } from '../../../../tests/helpers/world.ts';

// A correction of used credits counts exactly once in the balance and in the books, whatever is lost in between.

const test = suite('adjustments');
let world: World;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  world = await makeWorld(['verify', 'consumer'], PATIENT);
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'adjusted' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(() => world?.stop());

test('an adjustment is in the balance at once and in the books on its day, with who and why', async () => {
  const { key, meter } = await customers.meteredKey('10');
  const { id } = await customers.billing(meter);
  await must(200, spend(key, '4'));
  const given = await must(
    201,
    adjust(id, { amount: '-1.500000', reason: 'sent twice', day: '2026-01-31', usageName: 'tokens' }),
  );
  const { adjustment } = given.body;
  assert.match(adjustment.id, /^evt_/);
  assert.equal([adjustment.number, adjustment.amount, adjustment.day], [1, '-1.5', '2026-01-31']);
  assert.is((await customers.billing(meter)).usedCredits, '2.5');
  assert.is((await spend(key, '7.5')).body.billing.usedCredits, '10');
  await must(201, adjust(id, { amount: '3', reason: 'forgotten' }));
  assert.is((await customers.billing(meter)).usedCredits, '13', 'a correction is a fact, whatever the limit');
  assert.is((await spend(key, '0.1')).body.status, 'USAGE_LIMITED');
  const rows = await eventually('all is booked', async () => {
    const { data } = (await must(200, world.call('get', `/api/v1/usage/${id}`))).body;
    return data.length === 2 && data[1].totalBillingUsage === '14.5' ? data : undefined;
  });
  assert.equal(
    [rows[0].day, rows[0].billingUsageName, rows[0].totalBillingUsage, rows[0].events],
    ['2026-01-31', 'tokens', '-1.5', 0],
  );
  assert.is(rows[1].events, 2, 'adjustments are no verifications');
  assert.is((await reconciliation(id)).status, 'EXACT');
});

test('a secret in the reason or the usage name is hidden before it is booked', async () => {
  const { key, meter } = await customers.meteredKey('10');
  const { id } = await customers.billing(meter);
  const body = { amount: '1', reason: `of ${key.replace('_', '%5f')}`, usageName: key };
  const { adjustment } = (await must(201, adjust(id, body))).body;
  assert.equal([adjustment.reason, adjustment.usageName], ['of [secret]', '[secret]']);
  const rows = await eventually('it is booked', async () => {
    const { data } = (await must(200, world.call('get', `/api/v1/usage/${id}`))).body;
    return data.length === 1 && data;
  });
  assert.is(rows[0].billingUsageName, '[secret]');
});

test('an adjustment repeated with its Idempotency-Key counts once; without a key it is refused', async () => {
  const meter = await customers.newMeter({ totalCredits: '10' });
  const { id } = await customers.billing(meter);
  const body = { amount: '2', reason: 'r' };
  const without = await world.call('post', path(id), body);
  assert.equal([without.status, without.body.error.code], [400, 40011]);
  const headers = { 'Idempotency-Key': 'once' };
  const answers = await Promise.all(Array.from({ length: 8 }, () => world.call('post', path(id), body, { headers })));
  const made = answers.filter((answer) => answer.status === 201);
  assert.ok(made.length > 0);
  for (const answer of made) assert.equal(answer.body, made[0]!.body);
  for (const answer of answers) assert.ok([201, 409].includes(answer.status), answer.text);
  assert.is((await customers.billing(meter)).usedCredits, '2');
});

test('twenty concurrent adjustments get consecutive numbers, and none is lost', async () => {
  const meter = await customers.newMeter({ totalCredits: '10' });
  const { id } = await customers.billing(meter);
  const made = await Promise.all(
    Array.from({ length: 20 }, () => must(201, adjust(id, { amount: '0.01', reason: 'r' }))),
  );
  const numbers = made.map((answer) => answer.body.adjustment.number as number).toSorted((a, b) => a - b);
  assert.equal(
    numbers,
    Array.from({ length: 20 }, (_, i) => i + 1),
  );
  assert.is((await customers.billing(meter)).usedCredits, '0.2');
});

test('applying an adjustment twice changes nothing the second time', async () => {
  const meter = await customers.newMeter({ totalCredits: '10' });
  const { id } = await customers.billing(meter);
  await must(201, adjust(id, { amount: '1', reason: 'r' }));
  await world.sql`update changes set applied_at = null, created_at = now() - interval '1 hour' where kind = 'adjustment'`;
  await eventually('the sweeper has applied it again', async () => {
    const [row] = await world.sql`select from changes where kind = 'adjustment' and applied_at is null`;
    return !row;
  });
  assert.is((await customers.billing(meter)).usedCredits, '1');
  await eventually('it is booked', async () => (await customers.usage(meter)) === '1');
});

test('an adjustment that is stored but not in force says so, comes into force by itself, and the next waits for it', async () => {
  const wire = await wireTo(world.env.REDIS_URL!);
  const api = await world.start('api', { REDIS_URL: wire.url });
  const meter = await customers.newMeter({ totalCredits: '10' });
  const { id } = await customers.billing(meter);
  // A process commits number 1 and dies before applying it.
  await world.sql.begin(async (tx) => {
    await tx`update billing_records set last_adjustment = 1 where id = ${id}`;
    await tx`
      insert into adjustments (id, team_id, billing_id, number, amount_micros, usage_name, day, reason, token_id, request_id)
      values ('evt_01kaf00000000000000000000a', ${world.team.id}, ${id}, 1, 1000000, 'default', '2026-02-01', 'r', (select min(id) from access_tokens), 'r')`;
    await tx`insert into changes (kind, entity_id, shard) values ('adjustment', 'evt_01kaf00000000000000000000a', ${meterShard(workspaceId, meter)})`;
  });
  const second = await must(201, adjust(id, { amount: '2', reason: 'r' }));
  assert.is(second.body.adjustment.number, 2);
  assert.is((await customers.billing(meter)).usedCredits, '3', 'the one before it was applied first');
  await wire.cut();
  const refused = await world.call(
    'post',
    api.url + path(id),
    { amount: '1', reason: 'r' },
    { headers: { 'Idempotency-Key': 'k' } },
  );
  assert.equal([refused.status, refused.body.error.code], [503, 50301]);
  await api.stop();
});

test('wrong amounts, days in the future and giving back more than was used are refused', async () => {
  const meter = await customers.newMeter({ totalCredits: '10' });
  const { id } = await customers.billing(meter);
  const refused = async (body: object) => {
    const answer = await adjust(id, body);
    assert.is(answer.status, 400, answer.text);
    return answer.body.error.code;
  };
  for (const amount of ['0', '-0.0', '1.0000001', 'x', '', '9000000001', 1])
    assert.is(await refused({ amount, reason: 'r' }), 40001, String(amount));
  assert.is(await refused({ amount: '1', reason: 'r', day: '2999-01-01' }), 40001);
  assert.is(await refused({ amount: '1', reason: 'r', day: '2026-02-30' }), 40001);
  assert.is(await refused({ amount: '1', reason: '' }), 40001);
  assert.is(await refused({ amount: '-0.000001', reason: 'r' }), 40012);
  assert.is((await customers.billing(meter)).usedCredits, '0');
  const other = await world.newTeam();
  const foreign = await world.call(
    'post',
    path(id),
    { amount: '1', reason: 'r' },
    { token: other.token, headers: { 'Idempotency-Key': 'f' } },
  );
  assert.is(foreign.status, 404);
});

test('an adjustment is never changed or removed', async () => {
  for (const statement of ['update adjustments set amount_micros = 1', 'delete from adjustments'])
    await world.sql.unsafe(statement).then(
      () => assert.unreachable(statement),
      (error: Error) => assert.match(error.message, /only ever added to/),
    );
});

let keys = 0;

function path(id: string): string {
  return `/api/v1/customer-billing/${id}/adjustment`;
}

function adjust(id: string, body: object) {
  return world.call('post', path(id), body, { headers: { 'Idempotency-Key': `key-${keys++}` } });
}

function spend(key: string, usage: string) {
  return customers.verify({ key, billing: { usage } });
}

async function reconciliation(id: string) {
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}/reconciliation`))).body.reconciliation;
}

test.run();
