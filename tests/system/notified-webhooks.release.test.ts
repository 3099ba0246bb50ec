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
import { connectTestRedis, eventually, spawnWorld, once } from '../helpers/world.ts';

// From the call that makes an event to its receiver. What makes each type is in apps/consumer/tell-*.test.ts.

const DAY = 86_400_000;

const certificate = makeReceiverCertificate();
const receiver = await startReceiver(certificate);
const world = await spawnWorld(['verify', 'consumer'], {
  WEBHOOK_ALLOWED_TARGETS: `*=${receiver.target}`,
  NODE_EXTRA_CA_CERTS: certificate.certificate,
});
await world.start('webhooks');
const hook = { url: receiver.url, events: webhookEventTypes };
const { secret } = (await must(201, world.call('post', '/api/v1/webhook', hook))).body.webhook;
const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'told' }))).body;
const customers = makeCustomers(world, workspace.id);

test('every type of event arrives at its receiver, signed, each with the id that it was told under', async () => {
  await close(40 * DAY);
  // Credits, which an alert watches, are used up and given again; a hold ends; a limit refuses; grants and a key begin and end.
  const alerts = [{ name: 'half', when: { usedPercent: 50 } }];
  const meter = await customers.newMeter({ totalCredits: '10', alerts });
  const { id } = await customers.billing(meter);
  const limits = [{ name: 'monthly', unit: 'requests', limit: 3, per: 'month' }];
  const { id: keyId, key } = await customers.newKey({
    externalMeterId: meter,
    limits,
    expiresAt: Date.now() + 7 * DAY,
  });
  await used(key, { usage: '2', hold: { expiresIn: 1, onExpiry: 'release' } });
  await used(key, { usage: '8' });
  await arrived('hold.expired');
  await used(key, { usage: '2' });
  await arrived('credits.exhausted');
  await eventually('it is refused', async () => (await customers.verify({ key })).body.status === 'RATE_LIMITED');
  const grants = `/api/v1/customer-billing/${id}/grant`;
  for (const end of [1_000, DAY + 5_000])
    await must(201, world.call('post', grants, { credits: '5', expiresAt: Date.now() + end }, { headers: once() }));
  const path = `/api/v1/workspace/${workspace.id}/api-key/${keyId}`;
  await must(200, world.call('patch', path, { expiresAt: Date.now() + DAY + 5_000 }));
  await arrived('key.expiring');
  await must(200, world.call('post', `${path}/rotate`));
  await must(200, world.call('delete', path));
  await eventually('it is booked', async () => (await customers.usage(meter)) === '10');
  await inventUsage(id);
  await Promise.all(webhookEventTypes.map(arrived));

  for (const { body, headers } of receiver.got) new Webhook(secret).verify(body, headers as Record<string, string>);
  for (const { body } of receiver.got) assert.not.match(body, key);
  const known = new Set((await world.sql<{ id: string }[]>`select id from webhook_events`).map((event) => event.id));
  assert.equal(
    receiver.got.map(({ headers }) => headers['webhook-id'] as string).filter((event) => !known.has(event)),
    [],
  );
});

/** Closes the month of a workspace that was made so long ago. */
async function close(agoMs: number): Promise<void> {
  const { id } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'closing' }))).body.workspace;
  const madeAt = Date.now() - agoMs;
  await backdateRows(world.sql, id, madeAt);
  const month = new Date(madeAt).toISOString().slice(0, 7);
  await must(200, world.call('post', `/api/v1/workspace/${id}/close`, { month }));
}

/** Verifies until the answer is VALID: verify may not know the key yet. Undecided it may have been debited, and is debited once. */
async function used(key: string, billing: object): Promise<void> {
  const headers = once();
  const isValid = async () => (await customers.verify({ key, billing }, { headers })).body.status === 'VALID';
  await eventually('it is VALID', isValid);
}

async function arrived(type: string): Promise<void> {
  const has = ({ body }: { body: string }) => (JSON.parse(body) as { type: string }).type === type;
  await eventually(`${type} has arrived`, async () => receiver.got.some(has));
}

/** Books what no balance has, and compares: as if Redis had been put back to an earlier state than the books. */
async function inventUsage(billingId: string): Promise<void> {
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const redis = await connectTestRedis();
  const log = makeLogger('test', 'silent');
  const query = `select epoch from usage_events where billing_id = {billingId:String} limit 1`;
  const answer = await books.client.query({ query, query_params: { billingId }, format: 'JSONEachRow' });
  const [{ epoch }] = (await answer.json<{ epoch: number }>()) as [{ epoch: number }];
  const invented = {
    billingId,
    workspaceId: workspace.id,
    epoch,
    sequence: 99,
    costMicros: 7_000_000,
    usedMicros: 17_000_000,
  };
  await insertEvents(books, [carryDecoded(testEvent({ ...invented, timeMs: Date.now() - 1_000 }))], systemClock);
  await reconcileAll({ sql: world.sql, redis, books }, makeMetrics('test'), log, new AbortController().signal);
  await Promise.all([books.close(), redis.close()]);
}
