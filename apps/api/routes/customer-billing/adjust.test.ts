import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { dayOf } from '../../../../shared/events/event.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { recordOf } from '../../../../tests/helpers/pass-time.ts';
import { joinWorld } from '../../../../tests/helpers/world.ts';
import { makeBackground } from '../../tests/helpers/background.ts';
import { makeRecords } from '../../tests/helpers/records.ts';

// A correction of used credits counts exactly once in the balance and in the books, whatever is lost in between.

// Of the first month of a workspace that is made now.
const FIRST_DAY = `${new Date().toISOString().slice(0, 7)}-01`;
const usedOf = async (id: string) => (await records.billing(id)).usedCredits;
const world = await joinWorld();
const records = await makeRecords(world);

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
  const { data } = await records.get(`/api/v1/usage/${id}`);
  assert.is(data[0].day, FIRST_DAY);
  // The spending may lie on two days.
  const names = new Set<string>(data.map((row: { billingUsageName: string }) => row.billingUsageName));
  assert.equal([...names].toSorted(), ['[secret]', 'default']);
  assert.equal(data[0].totalBillingUsage, '-1.5');
  const events = data.map((row: { events: number }) => row.events);
  assert.equal([events[0], events.reduce((sum: number, n: number) => sum + n)], [0, 2], 'no verifications');
  assert.is((await records.proof(id)).status, 'EXACT');
});

test('concurrent adjustments get consecutive numbers, none is lost, and applied again none counts twice', async () => {
  const { id, meter } = await records.record();
  const made = await Promise.all(Array.from({ length: 8 }, () => records.adjust(id, '0.01')));
  assert.equal(
    made.map(({ number }) => number).toSorted((a, b) => a - b),
    [1, 2, 3, 4, 5, 6, 7, 8],
  );
  assert.is(await usedOf(id), '0.08');
  await world.sql`
    update changes set applied_at = null, created_at = now() - interval '1 hour'
    where entity_id in (select id from adjustments where billing_id = ${id})`;
  const background = makeBackground(world);
  await background.sweep();
  assert.is(await usedOf(id), '0.08');
  await world.booked();
  assert.is(await records.customers.usage(meter), '0.08');
});

test('the next adjustment applies first the one before it that is stored and not in force', async () => {
  const { id } = await records.record();
  // A process commits number 1 and dies before applying it.
  const { shard } = await recordOf(world.sql, id);
  const entityId = newId('evt');
  await world.sql.begin(async (tx) => {
    await tx`update billing_records set last_adjustment = 1 where id = ${id}`;
    await tx`
      insert into adjustments (id, team_id, billing_id, number, amount_micros, usage_name, day, reason, token_id, request_id)
      select ${entityId}, ${world.team.id}, ${id}, 1, 3000000, 'default', ${FIRST_DAY}, 'r', min(id), 'r'
      from access_tokens where team_id = ${world.team.id}`;
    await tx`insert into changes (kind, entity_id, shard) values ('adjustment', ${entityId}, ${shard})`;
  });
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
    assert.is(
      await records.refused(`${records.path(id)}/adjustment`, { reason: 'r', ...body }),
      code,
      JSON.stringify(body),
    );
  assert.is(await usedOf(id), '0');
});
