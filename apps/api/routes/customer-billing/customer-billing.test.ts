import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey } from '../../../../shared/books/billing-refs.ts';
import { dayOf } from '../../../../shared/events/event.ts';
import { recordOf } from '../../../../tests/helpers/pass-time.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { leaveAdjustment } from '../../tests/helpers/background.ts';
import { makeRecords } from '../../tests/helpers/records.ts';
import { callsOf, codesOf, column, columns, joinWorld, must, once, refused } from '../../tests/helpers/calls.ts';

const PATH = '/api/v1/customer-billing';
const REFILL = `${PATH}/refill`;
const world = await joinWorld();
const { redis } = world;
const { ask, read, make, post, change } = callsOf(world);
const records = await makeRecords(world);
const { createdAt } = await read(`/api/v1/workspace/${records.workspaceId}`);
const FIRST_DAY = `${createdAt.slice(0, 7)}-01`;
const usedOf = async (id: string) => (await records.billing(id)).usedCredits;

test('a billing record is created, read by meter and by id, and changed', async () => {
  const externalMeterId = 'meter / 1 ü';
  const asked = { workspaceId: records.workspaceId, externalMeterId };
  const billing = await make(PATH, asked);
  assert.match(billing.id, /^bill_[0-9a-z]{26}$/);
  const zero = { totalCredits: '0', usedCredits: '0', availableCredits: '0', heldCredits: '0', expiredCredits: '0' };
  const { id, createdAt } = billing;
  assert.equal(billing, { ...zero, ...asked, id, allowOverages: false, createdAt, updatedAt: createdAt });
  const byMeter = `${PATH}?${new URLSearchParams(asked).toString()}`;
  for (const path of [byMeter, records.path(id)]) assert.equal(await read(path), billing);

  const changed = await change(records.path(id), { allowOverages: true, spendCap: '007.50' });
  assert.equal(changed, { ...billing, allowOverages: true, spendCap: '7.5', updatedAt: changed.updatedAt });
  const cleared = await change(records.path(id), { spendCap: null });
  const { spendCap: _, ...uncapped } = changed;
  assert.equal(cleared, { ...uncapped, updatedAt: cleared.updatedAt }, 'what is not named stays');
  assert.equal(await read(byMeter), cleared);
});

test('a new record has the given settings, in canonical form; an alert names a limit by any name that it can have', async () => {
  const name = 'n'.repeat(128);
  const limits = [{ name, unit: 'requests', limit: 10, per: 'day' }];
  const alerts = [
    { name: 'low', when: { limit: name, usedPercent: 80 } },
    { name: 'buy', when: { available: '010.50' }, topUp: '500' },
  ];
  const given = { totalCredits: '0012.340000', allowOverages: true, spendCap: '0', limits, alerts };
  const body = { workspaceId: records.workspaceId, externalMeterId: 'given', ...given };
  const { totalCredits, spendCap, allowOverages, alerts: told } = await make(PATH, body);
  const canonical = [alerts[0], { ...alerts[1], when: { available: '10.5' } }];
  assert.equal([totalCredits, spendCap, allowOverages, told], ['12.34', '0', true, canonical]);
  const wrongAlert = (when: object, topUp?: string) => ({ alerts: [{ name: 'buy', when, topUp }] });
  const wrong: [path: string, fields: object][] = [
    ['/totalCredits', { totalCredits: '1.0000001' }],
    ['/totalCredits', { totalCredits: '9000000000.000001' }],
    ['/spendCap', { spendCap: '1e3' }],
    ['/alerts/0/topUp', wrongAlert({ available: '10' }, '0')],
    ['/alerts/0/topUp', wrongAlert({ usedPercent: 80 }, '5')],
    ['/alerts/0/when', wrongAlert({ limit: 'daily' })],
    ['/alerts/0/when', wrongAlert({ limit: 'daily', available: '1' })],
    ['/alerts/0/when', wrongAlert({ usedPercent: 80, available: '1' })],
    ['/alerts/1/name', { alerts: [alerts[0], alerts[0]] }],
  ];
  for (const [path, fields] of wrong) {
    const { details } = await refused(40001, ask('post', PATH, { ...body, externalMeterId: 'none', ...fields }), path);
    assert.is(details[0].path, path, JSON.stringify(fields));
  }
});

test('an alert on a limit that its record does not have for a day, a week or a month is kept with a warning, until it has', async () => {
  const alerts = [
    { name: 'low', when: { usedPercent: 80 } },
    { name: 'far', when: { limit: 'daily', usedPercent: 80 } },
  ];
  const limit = { name: 'daily', unit: 'requests', limit: 10 };
  const body = { workspaceId: records.workspaceId, externalMeterId: 'warned', alerts };
  const made = (await must(201, world.call('post', PATH, body))).body;
  assert.equal([made.billing.alerts, pathsOf(made)], [alerts, ['/alerts/1/when/limit']]);
  for (const [changes, paths] of [
    [{ limits: [{ ...limit, name: 'other', per: 'day' }] }, ['/alerts/1/when/limit']],
    [{ limits: [{ ...limit, per: 'hour' }] }, ['/alerts/1/when/limit']],
    [{ limits: [{ ...limit, per: 'week' }] }, undefined],
    [{ limits: null }, ['/alerts/1/when/limit']],
    [{ alerts: null }, undefined],
  ] as const)
    assert.equal(pathsOf((await must(200, ask('patch', records.path(made.billing.id), changes))).body), paths);
});

test('a workspace has one record for each meter, also when several are created at once', async () => {
  const body = { workspaceId: records.workspaceId, externalMeterId: 'raced' };
  const answers = await Promise.all(Array.from({ length: 8 }, () => world.call('post', PATH, body)));
  assert.equal(codesOf(answers), [201, ...Array<number>(7).fill(40902)]);
  const { workspaceId } = await makeRecords(world);
  await make(PATH, { ...body, workspaceId });
});

test('usedCredits is what Redis counts, and the snapshot where Redis does not know the record', async () => {
  const { id } = await records.record();
  const record = await recordOf(world.sql, id);
  const { client } = redis.node(record.shard);
  await world.sql`update billing_records set used_micros = 3000000 where id = ${id}`;
  assert.is(await usedOf(id), '0', 'a record in force without a count has used nothing');
  await client.hset(billingKey(record), 'u', '8999999999999999');
  assert.is(await usedOf(id), '8999999999.999999');
  await client.hdel(billingKey(record), 's');
  assert.is(await usedOf(id), '3', 'a record that is not there is not a record without use');
});

// Which texts and numbers are amounts is in shared/values/credits.test.ts.
test('each refill adds exactly its amount, a decimal text or a number, and writes one row of the ledger, which is read in pages; what is no amount is refused', async () => {
  const { id, meter } = await records.record('0.000001');
  const refills = [
    [1, '1', '1.000001'],
    ['007.50', '7.5', '8.500001'],
    [0.000001, '0.000001', '8.500002'],
    [0.1, '0.1', '8.600002'],
    [0.2, '0.2', '8.800002'],
    ['8589934592.123457', '8589934592.123457', '8589934600.923459'],
  ] as const;
  for (const [amount, , total] of refills) assert.is((await records.refill(meter, amount)).billing.totalCredits, total);
  const asked = { workspaceId: records.workspaceId, externalMeterId: meter, refill: 5 };
  await post(REFILL, asked, { ...once(), 'X-Request-Id': 'refill-7' });
  const pages = await readPages<any>(3, (query) => ask('get', `${records.path(id)}/ledger?${query}`));
  const lines = pages.flat();
  assert.equal(column(lines, 'amount'), [...refills.map(([, amount]) => amount), '5']);
  const last = lines.at(-1);
  const [token] = await world.sql`select id from access_tokens where team_id = ${world.team.id} order by id limit 1`;
  const told = { billingId: id, amount: '5', totalCredits: '8589934605.923459', tokenId: token!.id };
  assert.equal(last, { ...told, id: last.id, requestId: 'refill-7', createdAt: last.createdAt });
  assert.match(last.id, /^ledger_[0-9a-z]{26}$/);
  for (const refill of [0, 0.0000001, 8589934592.123457, '0', '1e3', '9000000000.000001'])
    await records.refused(40001, REFILL, { ...asked, refill });
});

test('a refill beside an open hold is in the total at once, before any call; concurrent ones all count', async () => {
  const { id, meter, key } = await records.record('5');
  await records.customers.hold({ key }, '2');
  assert.is((await records.refill(meter, 3)).billing.totalCredits, '8');
  assert.equal(await records.amounts(id), ['8', '0', '6', '2', '0']);
  const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => records.refill(meter, i + 0.000001)));
  assert.is(new Set(answers.map(({ billing }) => billing.totalCredits)).size, 12);
  const ledger = await read(`${records.path(id)}/ledger?limit=200`);
  assert.equal([ledger.length, ledger.at(-1).totalCredits], [13, '74.000012']);
  assert.is((await records.billing(id)).totalCredits, '74.000012');
});

// A correction of used credits counts exactly once in the balance and in the books, whatever is lost in between.

test('an adjustment is in the balance at once and in the books on its day, with who and why, and any secret hidden', async () => {
  const { key, id } = await records.record('10');
  await records.spend(key, '4');
  const given = { reason: `of ${key.replace('_', '%5f')}`, day: FIRST_DAY, usageName: key };
  const adjustment = await records.adjust(id, '-1.500000', given);
  assert.match(adjustment.id, /^evt_/);
  const { number, amount, day, reason, usageName } = adjustment;
  assert.equal([number, amount, day, reason, usageName], [1, '-1.5', FIRST_DAY, 'of [secret]', '[secret]']);
  assert.is(await usedOf(id), '2.5');
  assert.is((await records.spend(key, '7.5')).billing.usedCredits, '10');
  await records.adjust(id, '3');
  assert.is(await usedOf(id), '13', 'a correction is a fact, whatever the limit');
  assert.is((await records.spend(key, '0.1')).status, 'USAGE_LIMITED');
  await world.booked();
  const [first, ...others] = await read(`/api/v1/usage/${id}`);
  // An adjustment is no verification.
  const told = columns([first], 'day', 'billingUsageName', 'totalBillingUsage', 'events');
  assert.equal(told, [[FIRST_DAY, '[secret]', '-1.5', 0]]);
  // The spending may lie on two days.
  assert.equal([...new Set(column(others, 'billingUsageName'))], ['default']);
  const events = column(others, 'events').reduce((sum, some) => sum + some);
  assert.is(events, 2);
  assert.is((await records.proof(id)).status, 'EXACT');
});

test('the next adjustment applies first the one before it that is stored and not in force', async () => {
  const { id } = await records.record();
  // A process commits number 1 and dies before applying it.
  await leaveAdjustment(world, await recordOf(world.sql, id), { number: 1, credits: 3 });
  assert.is((await records.adjust(id, '-1')).number, 2, 'no more is given back than will have been used');
  assert.is(await usedOf(id), '2', 'the one before it was applied first');
});

test('wrong amounts, days in the future or before the first month, and giving back more than was used are refused', async () => {
  const { id } = await records.record();
  for (const [code, body] of [
    ...['0', '-0.0', '1.0000001', '9000000001'].map((amount) => [40001, { amount }] as const),
    [40001, { amount: '1', day: '2999-01-01' }],
    [40001, { amount: '1', day: '2026-02-30' }],
    [40001, { amount: '1', day: dayOf(Date.parse(FIRST_DAY) - 1) }],
    [40012, { amount: '-0.000001' }],
  ] as const)
    await records.refused(code, `${records.path(id)}/adjustment`, { reason: 'r', ...body });
  assert.is(await usedOf(id), '0');
});

function pathsOf({ warnings }: { warnings?: { path: string }[] }): string[] | undefined {
  return warnings?.map(({ path }) => path);
}
