// Every event counts once, however often it is delivered.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../shared/values/ids.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { metric } from '../../tests/helpers/metric.ts';
import { eventually } from '../../tests/helpers/world.ts';
import { makeConsumerWorld, numbered, type ConsumerWorld } from './helpers/consumer-world.ts';

const WITHIN_MS = 2_000;
const TRIES = 5;
let own: ConsumerWorld;
const test = suite('consume');
test.before(async () => {
  own = await makeConsumerWorld();
  await own.stopMerges();
});
test.after.each(() => own.stopConsuming());
test.after(() => own?.stop());

test('a verification is in the usage within 2 seconds, once', async () => {
  const { world } = own;
  const consumer = await world.start('consumer');
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'Acme' })).body;
  const before = Date.now();
  const newRecord = async (externalMeterId: string): Promise<string> => {
    const body = { workspaceId: workspace.id, externalMeterId, totalCredits: '9' };
    return (await world.call('post', '/api/v1/customer-billing', body)).body.billing.id;
  };
  const visible = (id: string) =>
    eventually('usage is visible', async () => {
      const { body } = await world.call('get', `/api/v1/usage/${id}`);
      return body.data.length > 0 && body.data;
    });
  let [billingId, tookMs, withinMs, tries, data] = ['', Infinity, 0, 0, [] as any[]];
  // A busy machine may take longer now and then.
  for (; tries < TRIES && tookMs >= withinMs; tries++) {
    // It also takes longer to insert without a consumer.
    const inserted = await newRecord(`inserted${tries}`);
    const insertedAt = performance.now();
    await own.book(Date.now(), [testEvent({ billingId: inserted, timeMs: Date.now() })]);
    await visible(inserted);
    withinMs = WITHIN_MS + 4 * (performance.now() - insertedAt);
    const meter = { workspaceId: workspace.id, externalMeterId: `m${tries}` };
    billingId = await newRecord(meter.externalMeterId);
    const { apiKey } = (await world.call('post', '/api/v1/api-key', { ...meter, name: 'k' })).body;
    const call = { key: apiKey.key, billing: { usage: '1.5', usageName: 'tokens' } };
    const answer = await world.call('post', '/api/v1/api-key/verify', { ...call, route: '/a?q=\'"\\é漢' });
    assert.is(answer.body.status, 'VALID', answer.text);
    const verifiedAt = performance.now();
    data = await visible(billingId);
    tookMs = performance.now() - verifiedAt;
  }
  assert.ok(tookMs < withinMs, `${tookMs} ms, not within ${withinMs} ms`);
  assert.equal([data.length, data[0].totalBillingUsage, data[0].billingUsageName], [1, '1.5', 'tokens']);

  const [row] = await own.rows<Record<string, string>>(
    'select * from usage_events where billing_id = {billingId:String}',
    { billingId },
  );
  assert.match(row!.event_id!, /^evt_/);
  assert.is(row!.route, '/a?q=\'"\\é漢');
  assert.is(row!.used_micros, '1500000');
  assert.is(row!.day, row!.time!.slice(0, 10));
  const timeMs = Date.parse(`${row!.time!.replace(' ', 'T')}Z`);
  assert.ok(timeMs > before - 10_000 && timeMs < Date.now() + 10_000);
  await eventually('the outbox is empty', async () => (await own.waiting()).entries === 0);
  assert.is((await own.booked(billingId)).physical, 1);
  assert.is(await metric(consumer.url, 'keytally_consumed_events_total'), tries);
  await consumer.stop();
});

test('a batch that was inserted but not acknowledged comes again and counts once', async () => {
  const billingId = newId('bill');
  await own.append(billingId, numbered(300));
  const first = own.consume(own.unacknowledged('c1'));
  await eventually('all are inserted', async () => (await own.booked(billingId)).events === 300);
  await first.stop();
  assert.equal(await own.waiting(), { entries: 300, pending: 300 });

  const second = own.consume(own.reader('c1'));
  await eventually('all are acknowledged', async () => (await own.waiting()).entries === 0);
  await second.stop();
  assert.equal(await own.booked(billingId), { physical: 600, events: 300, cost: 300 });
});

test('an event in several entries, read by two consumers at once, counts once', async () => {
  const billingId = newId('bill');
  const ids = await own.append(billingId, numbered(200));
  await own.append(
    billingId,
    numbered(200).map((event, i) => ({ ...event, id: ids[i]! })),
  );
  const running = [own.consume(own.reader('c1')), own.consume(own.reader('c2'))];
  for (let i = 0; i < 5; i++) await own.append(newId('bill'), numbered(100));
  await eventually('all are acknowledged', async () => (await own.waiting()).entries === 0);
  await Promise.all(running.map((one) => one.stop()));
  assert.equal([(await own.booked(billingId)).events, (await own.booked(billingId)).cost], [200, 200]);
});

test.run();
