import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../../../shared/runtime/clock.ts';
import { makeLogger } from '../../../../shared/runtime/log.ts';
import { connectRedis, type ShardedRedis } from '../../../../shared/stores/redis.ts';
import { backdate, backdateRows } from '../../../../tests/helpers/backdate.ts';
import { makeCustomers, must, type Customers, type TestKey } from '../../../../tests/helpers/customers.ts';
import { inTime } from '../../../../tests/helpers/in-time.ts';
import { eventually, makeWorld, once, type Started, type World } from '../../../../tests/helpers/world.ts';

const test = suite('statements');
let world: World;
let redis: ShardedRedis;
let consumer: Started | undefined;
test.before(async () => {
  world = await makeWorld(['verify']);
  redis = connectRedis(world.env.REDIS_URL!, makeLogger('test', 'silent'), systemClock);
  await redis.connected(60_000);
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});
test.after.each(async () => {
  await consumer?.stop();
  consumer = undefined;
});

test('a month tells each movement between its opening and closing balances, in the order of day, kind and name', async () => {
  const { customers, key, id, short, wrong } = await inTime(3_000, async (expiresAt) => {
    const made = await newWorkspace();
    const key = await made.customers.meteredKey('100');
    await spend(made.customers, key, '1.5', 'tokens');
    await backdate(redis, at('2026-09-12T10:00Z'));
    await backdateRows(world.sql, made.workspaceId, at('2026-09-10T00:00Z'));

    const { id } = await made.customers.billing(key.meter);
    const short = await grant(id, { credits: '10', name: 'promo', expiresAt, priority: 1 });
    const wrong = await grant(id, { credits: '7', name: 'by mistake', priority: 60 });
    await must(200, world.call('post', `/api/v1/customer-billing/${id}/grant/${wrong}/void`, {}));
    await spend(made.customers, key, '0.000001', 'tokens');
    await spend(made.customers, key, '2', 'calls');
    await spend(made.customers, key, '0.25', 'tokens');
    await backdate(redis, at('2026-10-02T23:59:59Z'));
    await backdateRows(world.sql, made.workspaceId, at('2026-10-02T08:00Z'));
    return { ...made, key, id, short, wrong };
  });
  await eventually('the grant has ended', async () => (await billingOf(id)).expiredCredits !== '7');
  await backdate(redis, at('2026-10-31T12:00Z'));
  const adjustment = await adjust(id, { amount: '-0.25', usageName: 'tokens', reason: '=wrong', day: '2026-10-05' });
  await spend(customers, key, '4', 'tokens');

  consumer = await world.start('consumer');
  const made = await exact(id, 'month=2026-10');
  const used = (day: string, name: string, amount: string, events: number) => ({
    day,
    kind: 'usage',
    name,
    balance: 'used',
    amount,
    events,
  });
  assert.equal(made.opening, { total: '100', used: '1.5', expired: '0', remaining: '98.5' });
  assert.equal(made.movements, [
    { day: '2026-10-02', kind: 'granted', name: 'by mistake', balance: 'total', amount: '7', grantId: wrong },
    { day: '2026-10-02', kind: 'granted', name: 'promo', balance: 'total', amount: '10', grantId: short },
    { day: '2026-10-02', kind: 'voided', name: 'by mistake', balance: 'expired', amount: '7', grantId: wrong },
    used('2026-10-02', 'calls', '2', 1),
    used('2026-10-02', 'tokens', '0.250001', 2),
    {
      day: '2026-10-05',
      kind: 'adjustment',
      name: 'tokens',
      balance: 'used',
      amount: '-0.25',
      eventId: adjustment.id,
      tokenId: adjustment.tokenId,
      reason: '=wrong',
    },
    { day: '2026-10-31', kind: 'expired', name: 'promo', balance: 'expired', amount: '7.749999', grantId: short },
  ]);
  assert.equal(made.closing, { total: '117', used: '3.500001', expired: '14.749999', remaining: '98.75' });
  addsUp(made);
  assert.equal([made.from, made.to, made.timezone, made.closed], ['2026-10-01', '2026-10-31', 'UTC', false]);

  const september = await exact(id, 'month=2026-09');
  assert.equal(september.closing, made.opening);
  const range = await exact(id, 'from=2026-10-03&to=2026-11-30');
  assert.equal(range.opening.used, '3.750001');
  assert.equal(range.closing.used, (await billingOf(id)).usedCredits);
  addsUp(range);

  const text = (await must(200, world.call('get', `${path(id)}?month=2026-10&format=csv`))).text;
  const lines = text.split('\r\n');
  assert.is(lines[0], 'day,kind,name,balance,amount,events,grantId,eventId,tokenId,reason,month');
  assert.is(lines[1], '2026-10-01,opening,,total,100,,,,,,');
  assert.ok(
    lines.includes(`2026-10-05,adjustment,tokens,used,-0.25,,,${adjustment.id},${adjustment.tokenId},'=wrong,`),
  );
  assert.equal(lines.slice(-3), ['2026-10-31,closing,,remaining,98.75,,,,,,', '2026-10-31,proof,EXACT,,,,,,,,', '']);
});

test("days and months are those of the workspace's time zone", async () => {
  const { workspaceId, customers } = await newWorkspace('Asia/Kathmandu');
  const key = await customers.meteredKey('100');
  await backdateRows(world.sql, workspaceId, at('2026-08-10T00:00Z'));
  for (const [usage, time] of [
    ['1', '2026-09-30T18:14:59Z'],
    ['2', '2026-09-30T18:15:00Z'],
    ['4', '2026-10-31T18:14:59Z'],
    ['8', '2026-10-31T18:15:00Z'],
  ] as const) {
    await spend(customers, key, usage, 'tokens');
    await backdate(redis, at(time));
  }
  const { id } = await customers.billing(key.meter);
  await adjust(id, { amount: '16', reason: 'r', day: '2026-10-31' });
  await adjust(id, { amount: '32', reason: 'r', day: '2026-11-01' });
  consumer = await world.start('consumer');
  const made = await exact(id, 'month=2026-10');
  assert.equal(
    made.movements.map(({ day, kind, amount }: any) => [day, kind, amount]),
    [
      ['2026-10-01', 'usage', '2'],
      ['2026-10-31', 'usage', '4'],
      ['2026-10-31', 'adjustment', '16'],
    ],
  );
  assert.equal([made.opening.used, made.closing.used], ['1', '23']);
});

test('a usage name that reads like the sum of very many names is a name like any other', async () => {
  const { workspaceId, customers } = await newWorkspace();
  const key = await customers.meteredKey('100');
  await backdateRows(world.sql, workspaceId, at('2026-10-01T00:00Z'));
  await spend(customers, key, '1', '(all)');
  await backdate(redis, at('2026-10-02T10:00Z'));
  const { id } = await customers.billing(key.meter);
  await adjust(id, { amount: '16', usageName: 'tokens', reason: 'r', day: '2026-10-05' });
  consumer = await world.start('consumer');
  const made = await exact(id, 'month=2026-10');
  assert.equal(
    made.movements.slice(-2).map(({ kind, name, amount }: any) => [kind, name, amount]),
    [
      ['usage', '(all)', '1'],
      ['adjustment', 'tokens', '16'],
    ],
  );
  assert.is(made.closing.used, '17');
});

test('a statement says that events are on their way, and that the books differ, and by how much', async () => {
  const { customers } = await newWorkspace();
  const key = await customers.meteredKey('100');
  for (const usage of ['1', '2', '4']) await spend(customers, key, usage, 'tokens');
  const { id } = await customers.billing(key.meter);
  const month = `month=${new Date().toISOString().slice(0, 7)}`;
  assert.equal((await statement(id, month)).proof, { status: 'PENDING', pendingEvents: 3 });
  consumer = await world.start('consumer');
  await exact(id, month);
  await adjust(id, { amount: '-1', reason: 'r' });
  await exact(id, month);
  const { command } = await booksOf(world);
  await command(`alter table usage_events delete where billing_id = '${id}' and seq = 2 settings mutations_sync = 2`);
  const proof = await eventually('it is proved', async () => {
    const made = await statement(id, month);
    return made.proof.status !== 'PENDING' && made.proof;
  });
  assert.equal(proof, {
    status: 'DIFFERENT',
    differences: [{ what: 'used credits that the books lack', credits: '2' }],
  });
});

test('usage that was lost with Redis is told as a memo that adds nothing', async () => {
  const { customers } = await newWorkspace();
  const key = await customers.meteredKey('100');
  await spend(customers, key, '1', 'tokens');
  consumer = await world.start('consumer');
  const { id } = await customers.billing(key.meter);
  await world.sql`
    insert into usage_losses (billing_id, epoch, after_seq, events, amount_micros, is_priced, is_whole, found_at)
    values (${id}, 0, 7, 3, 2500000, true, true, '2026-10-07T12:00:00Z')`;
  const { movements } = await statement(id, 'month=2026-10');
  assert.equal(movements, [
    { day: '2026-10-07', kind: 'loss', name: '', balance: 'used', amount: '0', events: 3, lost: '2.5' },
  ]);
});

test('a statement needs both permissions, and a month or a range of at most 366 days', async () => {
  const { customers } = await newWorkspace();
  const { id } = await customers.billing(await customers.newMeter({}));
  for (const permission of ['billing:read', 'usage:read'] as const) {
    const token = await world.newToken(world.team.id, [permission]);
    const refused = await world.call('get', `${path(id)}?month=2026-10`, undefined, { token });
    assert.is(refused.body.error.code, 40301, permission);
  }
  for (const query of [
    '',
    'month=2026-13',
    'month=2026-10&from=2026-10-01',
    'from=2026-10-01',
    'from=2026-10-02&to=2026-10-01',
    'from=2025-01-01&to=2026-01-02',
  ])
    assert.is((await world.call('get', `${path(id)}?${query}`)).body.error.code, 40001, query);
});

test.run();

function at(text: string): number {
  return Date.parse(text);
}

async function newWorkspace(timezone = 'UTC') {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w', timezone }))).body;
  // It closes no month by itself, however long ago it was made.
  await world.sql`update workspaces set month_due_at = 9000000000000000 where id = ${workspace.id}`;
  return { workspaceId: workspace.id as string, customers: makeCustomers(world, workspace.id) };
}

async function spend(customers: Customers, { key }: TestKey, usage: string, usageName: string): Promise<void> {
  const { body } = await must(200, customers.verify({ key, billing: { usage, usageName } }));
  assert.is(body.status, 'VALID');
}

async function grant(id: string, body: object): Promise<string> {
  const headers = once();
  return (await must(201, world.call('post', `/api/v1/customer-billing/${id}/grant`, body, { headers }))).body.grant.id;
}

async function adjust(id: string, body: object) {
  const headers = once();
  return (await must(201, world.call('post', `/api/v1/customer-billing/${id}/adjustment`, body, { headers }))).body
    .adjustment;
}

async function billingOf(id: string) {
  return (await must(200, world.call('get', `/api/v1/customer-billing/${id}`))).body.billing;
}

function path(id: string): string {
  return `/api/v1/customer-billing/${id}/statement`;
}

async function statement(id: string, query: string) {
  return (await must(200, world.call('get', `${path(id)}?${query}`))).body.statement;
}

function exact(id: string, query: string) {
  return eventually('the statement is exact', async () => {
    const made = await statement(id, query);
    return made.proof.status === 'EXACT' && made;
  });
}

/** Adds in micro-credits, by an arithmetic of its own. */
function addsUp({ opening, movements, closing }: any): void {
  const micros = (text: string) => {
    const [whole = '', fraction = ''] = text.replace('-', '').split('.');
    return BigInt(whole + fraction.padEnd(6, '0')) * (text.startsWith('-') ? -1n : 1n);
  };
  for (const balance of ['total', 'used', 'expired']) {
    const sum = movements
      .filter((one: any) => one.balance === balance)
      .reduce((all: bigint, { amount }: any) => all + micros(amount), micros(opening[balance]));
    assert.is(sum, micros(closing[balance]), balance);
  }
  assert.is(micros(closing.remaining), micros(closing.total) - micros(closing.used) - micros(closing.expired));
}

async function booksOf({ env }: World) {
  const { connectClickHouse } = await import('../../../../shared/stores/clickhouse.ts');
  const books = connectClickHouse(env.CLICKHOUSE_URL!);
  return {
    async command(query: string) {
      await books.client.command({ query });
      await books.close();
    },
  };
}
