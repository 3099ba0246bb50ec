import { Webhook } from 'standardwebhooks';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { reconcileAll } from '../../apps/consumer/jobs/reconcile.ts';
import { insertEvents } from '../../apps/consumer/insert-events.ts';
import { makeReceiverCertificate, startReceiver } from '../../apps/webhooks/helpers/receiver.ts';
import { webhookEventTypes } from '../../shared/contract/webhook-events.ts';
import { carryDecoded } from '../../shared/events/carried-event.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { makeMetrics } from '../../shared/runtime/metrics.ts';
import { connectClickHouse } from '../../shared/stores/clickhouse.ts';
import { backdateRows } from '../helpers/backdate.ts';
import { testEvent } from '../helpers/events.ts';
import { makeCustomers, must } from '../helpers/customers.ts';
import { fieldsOf, listenToAll } from '../helpers/told-webhooks.ts';
import { dayWithRoom } from '../helpers/day-with-room.ts';
import { inTime } from '../helpers/in-time.ts';
import { connectTestRedis, eventually, spawnWorld, once } from '../helpers/world.ts';

// What makes each type of event, from the call to the row that waits for its webhook, and in the end to the receiver.

const DAY = 86_400_000;

await dayWithRoom('Asia/Kathmandu');
const certificate = makeReceiverCertificate();
const receiver = await startReceiver(certificate);
const world = await spawnWorld(['verify', 'consumer'], {
  WEBHOOK_ALLOWED_TARGETS: `*=${receiver.target}`,
  NODE_EXTRA_CA_CERTS: certificate.certificate,
});
await world.start('webhooks');
const body = { url: receiver.url, events: webhookEventTypes };
const { secret } = (await must(201, world.call('post', '/api/v1/webhook', body))).body.webhook;
const workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'told' }))).body.workspace.id;
const customers = makeCustomers(world, workspaceId);
const webhook = await listenToAll(world, workspaceId);

const use = (key: string, usage: string, more: object = {}, headers: Record<string, string> = {}) =>
  customers.verify({ key, billing: { usage, ...more } }, { headers });
const record = async (meter: string) => (await customers.billing(meter)).id;

/** Verifies until the answer is VALID: verify may not know the key yet. */
async function used(key: string, usage: string, more: object = {}): Promise<Record<string, any>> {
  // Undecided it may have been debited, and is not to be debited twice.
  const headers = once();
  return eventually('it is VALID', async () => {
    const { body } = await use(key, usage, more, headers);
    return body.status === 'VALID' ? body : undefined;
  });
}

test('credits that are used up are told as exhausted once, and as replenished once they are refilled', async () => {
  const { key, meter } = await customers.meteredKey('10');
  const id = await record(meter);
  await used(key, '4');
  assert.equal(await webhook.types(id), []);
  await used(key, '6');
  const [exhausted] = await webhook.until('credits.exhausted', id);
  assert.equal(exhausted!.data, { billingId: id, externalMeterId: meter, usedCredits: '10', totalCredits: '10' });
  assert.is((await use(key, '1')).body.status, 'USAGE_LIMITED');
  await used(key, '0');
  await used(key, '0');

  const refill = (amount: string) =>
    must(
      200,
      world.call('post', '/api/v1/customer-billing/refill', { workspaceId, externalMeterId: meter, refill: amount }),
    );
  await refill('5');
  const [replenished] = await webhook.until('credits.replenished', id);
  assert.equal([replenished!.data['usedCredits'], replenished!.data['totalCredits']], ['10', '15']);
  await used(key, '5');
  await webhook.until('credits.exhausted', id, 2);
  assert.equal(await webhook.types(id), ['credits.exhausted', 'credits.replenished', 'credits.exhausted']);
});

test('an alert that is crossed is told with what it says', async () => {
  const alerts = [{ name: 'half', when: { usedPercent: 50 } }];
  const meter = await customers.newMeter({ totalCredits: '10', alerts });
  const { key } = await customers.newKey({ externalMeterId: meter });
  const id = await record(meter);
  await used(key, '6');
  const [told] = await webhook.until('credits.alert', id);
  const { eventId, ...data } = told!.data;
  assert.equal(data, { billingId: id, externalMeterId: meter, alert: alerts[0], usedCredits: '6' });
  assert.match(eventId as string, /^evt_/);
});

test('a hold that nobody settles is told as expired, released or charged; a captured one is not', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const id = await record(meter);
  // The low byte of its first letter is that of a quote.
  const usageName = 'Токены';
  const held = (expiresIn: number, onExpiry: string) => used(key, '2', { usageName, hold: { expiresIn, onExpiry } });
  await held(1, 'release');
  await held(1, 'charge');
  const { hold } = await held(3_600, 'release');
  await must(200, world.call('post', '/api/v1/usage/capture', { holdId: hold.id, usage: '1' }));
  const told = await webhook.until('hold.expired', id, 2);
  assert.equal(fieldsOf(told, 'outcome', 'credits', 'externalMeterId'), [
    `"charged" "2" "${meter}"`,
    `"released" "2" "${meter}"`,
  ]);
  assert.is(new Set(told.map(({ data }) => data['holdEventId'])).size, 2);
});

test('a grant is told when it begins and when it has expired, and a limit that refuses', async () => {
  const meter = await customers.newMeter({ totalCredits: '1' });
  const id = await record(meter);
  const { key } = await customers.newKey({
    externalMeterId: meter,
    limits: [{ name: 'daily', unit: 'requests', limit: 1, per: 'day' }],
  });
  const path = `/api/v1/customer-billing/${id}/grant`;
  for (const end of [1_000, DAY + 5_000]) {
    const grant = { credits: '5', expiresAt: Date.now() + end };
    await must(201, world.call('post', path, grant, { headers: once() }));
  }
  for (const type of ['grant.began', 'grant.expired', 'grant.expiring']) await webhook.until(type, id);
  await eventually('it is refused', async () => (await use(key, '0')).body.status !== 'VALID');
  await eventually('it is told', async () => types().has('limit.reached'));
});

test('a key is told when it is made, imported, rotated and deleted, and 7 days and 1 day before it expires', async () => {
  const { id } = await inTime(2_000, (soon) => customers.newKey({ expiresAt: soon + DAY, customerId: 'acme' }));
  const [expiring] = await webhook.until('key.expiring', id);
  assert.equal([expiring!.data['daysLeft'], expiring!.data['customerId']], [1, 'acme']);
  const path = `/api/v1/workspace/${workspaceId}/api-key/${id}`;
  await must(200, world.call('patch', path, { expiresAt: Date.now() + 7 * DAY + 5_000 }));
  await webhook.until('key.expiring', id, 2);
  await must(200, world.call('post', `${path}/rotate`));
  await must(200, world.call('delete', path));
  await must(200, world.call('delete', path));
  assert.equal(await webhook.types(id), ['key.created', 'key.expiring', 'key.expiring', 'key.rotated', 'key.deleted']);
});

test('every type of event arrives at its receiver, signed, each with the id that it was told under', async () => {
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'closing' }))).body;
  const before = Date.now() - 40 * DAY;
  await backdateRows(world.sql, workspace.id, before);
  const month = new Date(before).toISOString().slice(0, 7);
  await must(200, world.call('post', `/api/v1/workspace/${workspace.id}/close`, { month }));

  const { key, meter } = await customers.meteredKey('10');
  await used(key, '1');
  await eventually('it is booked', async () => (await customers.usage(meter)) === '1');
  await inventUsage(await record(meter));
  await webhook.until('books.different', await record(meter));

  await eventually('each type has arrived', async () => types().size === webhookEventTypes.length);
  for (const { body, headers } of receiver.got) new Webhook(secret).verify(body, headers as Record<string, string>);
  for (const { body } of receiver.got) assert.not.match(body, key);
  const known = new Set((await world.sql<{ id: string }[]>`select id from webhook_events`).map(({ id }) => id));
  assert.equal(
    receiver.got.map(({ headers }) => headers['webhook-id'] as string).filter((id) => !known.has(id)),
    [],
  );
});

/** What has arrived. */
function types(): Set<string> {
  return new Set(receiver.got.map(({ body }) => (JSON.parse(body) as { type: string }).type));
}

/** Books what no balance has, and compares: as if Redis had been put back to an earlier state than the books. */
async function inventUsage(billingId: string): Promise<void> {
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const redis = await connectTestRedis();
  const log = makeLogger('test', 'silent');
  const query = `select epoch from usage_events where billing_id = {billingId:String} limit 1`;
  const answer = await books.client.query({ query, query_params: { billingId }, format: 'JSONEachRow' });
  const [{ epoch }] = (await answer.json<{ epoch: number }>()) as [{ epoch: number }];
  const invented = { billingId, workspaceId, epoch, sequence: 2, costMicros: 7_000_000, usedMicros: 8_000_000 };
  await insertEvents(books, [carryDecoded(testEvent({ ...invented, timeMs: Date.now() - 1_000 }))], systemClock);
  await reconcileAll({ sql: world.sql, redis, books }, makeMetrics('test'), log, new AbortController().signal);
  await Promise.all([books.close(), redis.close()]);
}
