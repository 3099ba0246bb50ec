import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../../shared/values/ids.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { recordOf } from '../../../../tests/helpers/pass-time.ts';
import { connectRedisOf } from '../../../../tests/helpers/world-redis.ts';
import { joinWorld, once, type World } from '../../../../tests/helpers/world.ts';
import { sweep } from '../../sync/sweeper.ts';

// A correction of used credits counts exactly once in the balance and in the books, whatever is lost in between.

const test = suite('adjustments');
let world: World;
let customers: Customers;

test.before(async () => {
  world = await joinWorld();
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'adjusted' })).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(() => world?.stop());

test('an adjustment is in the balance at once and in the books on its day, with who and why, and any secret hidden', async () => {
  const { key, meter, id } = await record();
  await must(200, spend(key, '4'));
  const given = { amount: '-1.500000', reason: `of ${key.replace('_', '%5f')}`, day: '2026-01-31', usageName: key };
  const { adjustment } = (await must(201, adjust(id, given))).body;
  assert.match(adjustment.id, /^evt_/);
  const { number, amount, day, reason, usageName } = adjustment;
  assert.equal([number, amount, day, reason, usageName], [1, '-1.5', '2026-01-31', 'of [secret]', '[secret]']);
  assert.is((await customers.billing(meter)).usedCredits, '2.5');
  assert.is((await spend(key, '7.5')).body.billing.usedCredits, '10');
  await must(201, adjust(id, { amount: '3', reason: 'forgotten' }));
  assert.is((await customers.billing(meter)).usedCredits, '13', 'a correction is a fact, whatever the limit');
  assert.is((await spend(key, '0.1')).body.status, 'USAGE_LIMITED');
  await world.booked();
  const { data } = (await must(200, world.call('get', `/api/v1/usage/${id}`))).body;
  assert.equal(
    data.map((row: any) => [row.billingUsageName, row.totalBillingUsage, row.events]),
    [
      ['[secret]', '-1.5', 0],
      ['default', '14.5', 2],
    ],
    'adjustments are no verifications',
  );
  assert.is(data[0].day, '2026-01-31');
  const proof = (await must(200, world.call('get', `/api/v1/customer-billing/${id}/reconciliation`))).body;
  assert.is(proof.reconciliation.status, 'EXACT');
});

test('an adjustment repeated with its Idempotency-Key counts once; without a key it is refused', async () => {
  const { id, meter } = await record();
  const body = { amount: '2', reason: 'r' };
  const without = await world.call('post', path(id), body);
  assert.equal([without.status, without.body.error.code], [400, 40011]);
  const headers = once();
  const answers = await Promise.all(Array.from({ length: 8 }, () => world.call('post', path(id), body, { headers })));
  const made = answers.filter((answer) => answer.status === 201);
  assert.ok(made.length > 0);
  for (const answer of made) assert.equal(answer.body, made[0]!.body);
  for (const answer of answers) assert.ok([201, 409].includes(answer.status), answer.text);
  assert.is((await customers.billing(meter)).usedCredits, '2');
});

test('concurrent adjustments get consecutive numbers, none is lost, and applied again none counts twice', async () => {
  const { id, meter } = await record();
  const made = await Promise.all(
    Array.from({ length: 8 }, () => must(201, adjust(id, { amount: '0.01', reason: 'r' }))),
  );
  const numbers = made.map((answer) => answer.body.adjustment.number as number);
  assert.equal(
    numbers.toSorted((a, b) => a - b),
    [1, 2, 3, 4, 5, 6, 7, 8],
  );
  assert.is((await customers.billing(meter)).usedCredits, '0.08');
  const redis = await connectRedisOf(world);
  await world.sql`
    update changes set applied_at = null, created_at = now() - interval '1 hour'
    where entity_id in (select id from adjustments where billing_id = ${id})`;
  await sweep(world.sql, redis);
  await redis.close();
  const left = await world.sql`
    select from changes c join adjustments a on a.id = c.entity_id where a.billing_id = ${id} and c.applied_at is null`;
  assert.is(left.count, 0);
  assert.is((await customers.billing(meter)).usedCredits, '0.08');
  await world.booked();
  assert.is(await customers.usage(meter), '0.08');
});

test('the next adjustment applies first the one before it that is stored and not in force', async () => {
  const { id, meter } = await record();
  // A process commits number 1 and dies before applying it.
  const { shard } = await recordOf(world.sql, id);
  const entityId = newId('evt');
  await world.sql.begin(async (tx) => {
    await tx`update billing_records set last_adjustment = 1 where id = ${id}`;
    await tx`
      insert into adjustments (id, team_id, billing_id, number, amount_micros, usage_name, day, reason, token_id, request_id)
      select ${entityId}, ${world.team.id}, ${id}, 1, 1000000, 'default', '2026-02-01', 'r', min(id), 'r'
      from access_tokens where team_id = ${world.team.id}`;
    await tx`insert into changes (kind, entity_id, shard) values ('adjustment', ${entityId}, ${shard})`;
  });
  const second = await must(201, adjust(id, { amount: '2', reason: 'r' }));
  assert.is(second.body.adjustment.number, 2);
  assert.is((await customers.billing(meter)).usedCredits, '3', 'the one before it was applied first');
});

test('wrong amounts, days in the future and giving back more than was used are refused', async () => {
  const { id, meter } = await record();
  for (const [code, body] of [
    ...['0', '-0.0', '1.0000001', 'x', '', '9000000001', 1].map((amount) => [40001, { amount, reason: 'r' }] as const),
    [40001, { amount: '1', reason: 'r', day: '2999-01-01' }],
    [40001, { amount: '1', reason: 'r', day: '2026-02-30' }],
    [40001, { amount: '1', reason: '' }],
    [40012, { amount: '-0.000001', reason: 'r' }],
  ] as const)
    assert.is((await must(400, adjust(id, body))).body.error.code, code, JSON.stringify(body));
  assert.is((await customers.billing(meter)).usedCredits, '0');
});

test('an adjustment is never changed or removed', async () => {
  for (const statement of ['update adjustments set amount_micros = 1', 'delete from adjustments'])
    await world.sql.unsafe(statement).then(
      () => assert.unreachable(statement),
      (error: Error) => assert.match(error.message, /only ever added to/),
    );
});

test.run();

async function record() {
  const made = await customers.meteredKey('10');
  return { ...made, id: (await customers.billing(made.meter)).id };
}

function path(id: string): string {
  return `/api/v1/customer-billing/${id}/adjustment`;
}

function adjust(id: string, body: object) {
  return world.call('post', path(id), body, { headers: once() });
}

function spend(key: string, usage: string) {
  return customers.verify({ key, billing: { usage } });
}
