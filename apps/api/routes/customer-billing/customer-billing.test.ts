import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey } from '../../../../shared/books/billing-refs.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { recordOf } from '../../../../tests/helpers/pass-time.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';
import { makeRecords } from '../../tests/helpers/records.ts';

const PATH = '/api/v1/customer-billing';
const world = await joinWorld();
const { redis } = world;
const records = await makeRecords(world);

test('a billing record is created, read by meter and by id, and changed', async () => {
  const externalMeterId = 'meter / 1 ü';
  const asked = { workspaceId: records.workspaceId, externalMeterId };
  const made = (await must(201, world.call('post', PATH, asked))).body;
  const { billing } = made;
  assert.match(billing.id, /^bill_[0-9a-z]{26}$/);
  assert.match(billing.createdAt, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const zero = Object.fromEntries(
    ['total', 'used', 'available', 'held', 'expired'].map((name) => [`${name}Credits`, '0']),
  );
  const { id, createdAt } = billing;
  assert.equal(billing, { ...zero, ...asked, id, allowOverages: false, createdAt, updatedAt: createdAt });
  const byMeter = `${PATH}?${new URLSearchParams(asked).toString()}`;
  for (const path of [byMeter, records.path(id)]) assert.equal(await records.get(path), made);

  const change = async (body: object) => (await must(200, world.call('patch', records.path(id), body))).body;
  const changed = (await change({ allowOverages: true, spendCap: '007.50' })).billing;
  assert.equal(changed, { ...billing, allowOverages: true, spendCap: '7.5', updatedAt: changed.updatedAt });
  const cleared = await change({ spendCap: null });
  const { spendCap: _, ...uncapped } = changed;
  assert.equal(cleared.billing, { ...uncapped, updatedAt: cleared.billing.updatedAt }, 'what is not named stays');
  assert.equal(await records.get(byMeter), cleared);
});

test('a new record has the given settings, in canonical form; an alert names a limit by any name that it can have', async () => {
  const name = 'n'.repeat(128);
  const limits = [{ name, unit: 'requests', limit: 10, per: 'day' }];
  const alerts = [{ name: 'low', when: { limit: name, usedPercent: 80 } }];
  const given = { totalCredits: '0012.340000', allowOverages: true, spendCap: '0', limits, alerts };
  const body = { workspaceId: records.workspaceId, externalMeterId: 'given', ...given };
  const { billing } = (await must(201, world.call('post', PATH, body))).body;
  assert.equal(
    [billing.totalCredits, billing.spendCap, billing.allowOverages, billing.alerts],
    ['12.34', '0', true, alerts],
  );
  for (const wrong of [{ totalCredits: '1.0000001' }, { totalCredits: '9000000000.000001' }, { spendCap: '1e3' }])
    assert.is(await records.refused(PATH, { ...body, externalMeterId: 'none', ...wrong }), 40001);
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
  for (const [change, paths] of [
    [{ limits: [{ ...limit, name: 'other', per: 'day' }] }, ['/alerts/1/when/limit']],
    [{ limits: [{ ...limit, per: 'hour' }] }, ['/alerts/1/when/limit']],
    [{ limits: [{ ...limit, per: 'week' }] }, undefined],
    [{ limits: null }, ['/alerts/1/when/limit']],
    [{ alerts: null }, undefined],
  ] as const)
    assert.equal(pathsOf((await must(200, world.call('patch', records.path(made.billing.id), change))).body), paths);
});

test('a workspace has one record for each meter, also when several are created at once', async () => {
  const body = { workspaceId: records.workspaceId, externalMeterId: 'raced' };
  const answers = await Promise.all(Array.from({ length: 8 }, () => world.call('post', PATH, body)));
  const codes = answers.map((answer) => answer.body.error?.code ?? answer.status).toSorted((a, b) => a - b);
  assert.equal(codes, [201, ...Array<number>(7).fill(40902)]);
  const { workspaceId } = await makeRecords(world);
  await must(201, world.call('post', PATH, { ...body, workspaceId }));
});

test('usedCredits is what Redis counts, and the snapshot where Redis does not know the record', async () => {
  const { id } = await records.record();
  const record = await recordOf(world.sql, id);
  const { client } = redis.node(record.shard);
  const used = async () => (await records.billing(id)).usedCredits;
  await world.sql`update billing_records set used_micros = 3000000 where id = ${id}`;
  assert.is(await used(), '0', 'a record in force without a count has used nothing');
  await client.hset(billingKey(record), 'u', '8999999999999999');
  assert.is(await used(), '8999999999.999999');
  await client.hdel(billingKey(record), 's');
  assert.is(await used(), '3', 'a record that is not there is not a record without use');
});

function pathsOf({ warnings }: { warnings?: { path: string }[] }): string[] | undefined {
  return warnings?.map(({ path }) => path);
}
