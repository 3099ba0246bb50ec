import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { encodeEvent, EVENT_FIELD } from '../../shared/events/event.ts';
import { packAlerts, type PackedAlert } from '../../shared/stores/account-settings.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { newId } from '../../shared/values/ids.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { eventually } from '../../tests/helpers/world.ts';
import { makeConsumerWorld, type ConsumerWorld } from './helpers/consumer-world.ts';

let own: ConsumerWorld;
const test = suite('telling alerts');
test.before(async () => {
  own = await makeConsumerWorld();
});
test.after(() => own?.stop());
test.after.each(() => own.stopConsuming());

const LOW: PackedAlert = { name: 'low', kind: 'usedPercent', value: 80 };

/** Appends an event that crosses alerts, each of the same arming. */
async function append(billingId: string, alerts: PackedAlert[], armed: string, id = newId('evt')): Promise<string> {
  const crossed = alerts.map((alert) => `${packAlerts([alert]).slice(2)}${armed}\0`).join('');
  const event = testEvent({ id, timeMs: await own.redis.now(), billingId, usedMicros: 5, crossed });
  await own.node.client.xadd(keyspace.outbox(0), '*', EVENT_FIELD, encodeEvent(event));
  return id;
}

type Row = { name: string; eventId: string; when: object; armed: string };
async function told(billingId: string): Promise<Row[]> {
  const rows = await own.world.sql<Row[]>`
    select name, event_id, "when", armed from alerts_told where billing_id = ${billingId} order by name, armed`;
  return [...rows];
}

async function consumedAll(): Promise<void> {
  await eventually('the outbox is empty', async () => (await own.waiting()).entries === 0);
}

test('each alert of an event is stored with what it said and the event that crossed it', async () => {
  const { billingId } = await own.storeKeyAndBilling();
  own.consume(own.reader('a'));
  const left: PackedAlert = { name: 'left "l":', kind: 'available', value: 10_500_000 };
  const daily: PackedAlert = { name: 'daily', kind: 'limit', value: 90, limit: 'd' };
  const id = await append(billingId, [LOW, left, daily], 'x.1');
  await consumedAll();
  assert.equal(await told(billingId), [
    { name: 'daily', eventId: id, when: { limit: 'd', usedPercent: 90 }, armed: 'x.1' },
    { name: 'left "l":', eventId: id, when: { available: '10.5' }, armed: 'x.1' },
    { name: 'low', eventId: id, when: { usedPercent: 80 }, armed: 'x.1' },
  ]);
});

test('a replay, or the same crossing by another event after a loss, tells nothing twice; another arming does', async () => {
  const { billingId } = await own.storeKeyAndBilling();
  own.consume(own.reader('a'));
  const first = await append(billingId, [LOW], 'x.1');
  await append(billingId, [LOW], 'x.1', first);
  await append(billingId, [LOW], 'x.1');
  await append(billingId, [LOW], 'y.1');
  await consumedAll();
  assert.equal(
    (await told(billingId)).map(({ eventId, armed }) => [eventId === first, armed]),
    [
      [true, 'x.1'],
      [false, 'y.1'],
    ],
  );
});

test('a consumer that dies after it told an alert, before it acknowledged the event, tells it once', async () => {
  const { billingId } = await own.storeKeyAndBilling();
  await append(billingId, [LOW], 'x.1');
  own.consume(own.unacknowledged('a'));
  await eventually('it is told', async () => (await told(billingId)).length === 1);
  await own.stopConsuming();
  assert.is((await own.waiting()).entries, 1);
  await append(billingId, [LOW], 'y.1');
  own.consume(own.reader('a'));
  await consumedAll();
  assert.is((await told(billingId)).length, 2);
});

test('an alert of a record that Postgres does not have holds up no other', async () => {
  const { billingId } = await own.storeKeyAndBilling();
  own.consume(own.reader('a'));
  await append(newId('bill'), [LOW], 'x.1');
  await append(billingId, [LOW], 'x.1');
  await consumedAll();
  assert.is((await told(billingId)).length, 1);
});

test.run();
