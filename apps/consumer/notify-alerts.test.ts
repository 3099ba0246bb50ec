import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { PackedAlert } from '../../shared/stores/account-settings.ts';
import { newId } from '../../shared/values/ids.ts';
import { encodeEvent, testEvent } from '../../tests/helpers/events.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';

const own = await makeConsumerWorld();

const LOW: PackedAlert = { name: 'low', kind: 'usedPercent', value: 80 };

/** Appends an event that crosses alerts, each of the same arming. */
async function append(billingId: string, alerts: PackedAlert[], armed: string, id = newId('evt')): Promise<string> {
  const fields = alerts.map((one) => [one.name, one.kind, one.value, one.kind === 'limit' ? one.limit : '', armed, '']);
  const crossed = fields.map((ofAlert) => ofAlert.join('\0')).join('');
  const event = testEvent({ id, timeMs: await own.redis.now(), billingId, usedMicros: 5, crossed });
  await own.appendEntry(0, encodeEvent(event));
  return id;
}

const told = (billingId: string) => own.sql<{ name: string; eventId: string; when: object; armed: string }[]>`
  select name, event_id, "when", armed from alerts_told where billing_id = ${billingId} order by name, armed`;

test('each alert of an event is stored with what it said and the event that crossed it; of an unknown record none', async () => {
  const { billingId } = await own.storeKeyAndBilling();
  const left: PackedAlert = { name: 'left "l":', kind: 'available', value: 10_500_000 };
  const daily: PackedAlert = { name: 'daily', kind: 'limit', value: 90, limit: 'd' };
  await append(newId('bill'), [LOW], 'x.1');
  const id = await append(billingId, [LOW, left, daily], 'x.1');
  await own.carry();
  assert.equal(
    [...(await told(billingId))],
    [
      { name: 'daily', eventId: id, when: { limit: 'd', usedPercent: 90 }, armed: 'x.1' },
      { name: 'left "l":', eventId: id, when: { available: '10.5' }, armed: 'x.1' },
      { name: 'low', eventId: id, when: { usedPercent: 80 }, armed: 'x.1' },
    ],
  );
});

test('a replay, a consumer that dies after it told, or the same crossing by another event tells nothing twice; another arming does', async () => {
  const { billingId, workspaceId } = await own.storeKeyAndBilling();
  const heard = await own.listen(workspaceId);
  const first = await append(billingId, [LOW], 'x.1');
  await own.carryUntil('notifying webhooks of holds');
  assert.is((await told(billingId)).length, 1);
  await append(billingId, [LOW], 'x.1', first);
  await append(billingId, [LOW], 'x.1');
  await append(billingId, [LOW], 'y.1');
  await own.carry();
  const crossed = (await told(billingId)).map(({ eventId, armed }) => `${eventId === first} ${armed}`);
  assert.equal(crossed, ['true x.1', 'false y.1']);
  assert.is((await heard('credits.alert')).length, 2);
});

test('a top-up is due once for each arming of an alert that says how much, under the id of the crossing', async () => {
  const { billingId, workspaceId } = await own.storeKeyAndBilling();
  const heard = await own.listen(workspaceId);
  const alerts = [
    { name: 'buy', when: { available: '10' }, topUp: '500' },
    { name: 'left', when: { available: '5' } },
  ];
  await own.sql`update billing_records set alerts = ${JSON.stringify(alerts)}::text::json where id = ${billingId}`;
  const buy: PackedAlert = { name: 'buy', kind: 'available', value: 10_000_000 };
  const left: PackedAlert = { ...buy, name: 'left', value: 5_000_000 };
  for (const armed of ['x.1', 'x.1', 'x.2']) await append(billingId, [buy, left], armed);
  // Crossed as it was before a change.
  await append(billingId, [{ ...buy, value: 9_000_000 }], 'x.3');
  await own.carry();
  const crossings = await own.sql<{ id: string; eventId: string }[]>`
    select id, event_id from alerts_told where billing_id = ${billingId} and name = 'buy' and armed <> 'x.3' order by armed`;
  const alike = { billingId, externalMeterId: 'm', amount: '500', below: '10' };
  const due = (await heard('credits.top_up_due')).map(({ data }) => data);
  const told = crossings.map(({ id, eventId }) => ({ ...alike, eventId, topUpId: id }));
  assert.equal(due, told);
  assert.is(crossings.length, 2);
});
