import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { chainHead } from '../../apps/api/audit/chain.ts';
import { headText } from '../../apps/api/audit/line-mac.ts';
import { ALL_SHARDS, hashKeyText, keyShard } from '../../shared/values/key-text.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { makeCustomers, must, type Customers } from '../helpers/customers.ts';
import { metric } from '../helpers/metric.ts';
import { backUp, restore, runRestored } from '../helpers/postgres/older-postgres.ts';
import { eventually, makeWorld, once, type World } from '../helpers/world.ts';
import { makeOwnRedis } from '../helpers/own-redis.ts';

// Postgres is restored from an older backup while Redis and the books have gone on: nothing is skipped silently, and
// everything that changed since is settled on the safe side.

const test = suite('a Postgres restored from an older backup');
let redis: Awaited<ReturnType<typeof makeOwnRedis>>;
let world: World;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  redis = await makeOwnRedis('restored');
  world = await makeWorld(['verify', 'consumer'], { REDIS_URL: redis.url });
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'restored' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await world?.stop();
  await redis?.remove();
});

test('the api refuses changes until an operator has decided; then keys that changed since the backup are refused, and all else goes on', async () => {
  const [untouched, disabled, rotated] = [
    await customers.meteredKey('10'),
    await customers.meteredKey('10'),
    await customers.meteredKey('10'),
  ];
  const longAgo = await customers.newKey();
  const gone = (await must(201, world.call('post', '/api/v1/workspace', { name: 'gone' }))).body.workspace.id as string;
  const inGone = await makeCustomers(world, gone).newKey();
  const gateway = (
    await must(201, world.call('post', '/api/v1/access-token', { name: 'g', permissions: ['key:verify'] }))
  ).body.accessToken;
  await spend(untouched.key, '1');
  await eventually('changes are in force', async () => {
    const [waiting] = await world.sql`select from changes where applied_at is null`;
    return !waiting;
  });
  await backUp(world);

  const path = `/api/v1/workspace/${workspaceId}/api-key`;
  await must(200, world.call('patch', `${path}/${disabled.id}`, { enabled: false }));
  const fresh = (await must(200, world.call('post', `${path}/${rotated.id}/rotate`))).body.apiKey.key as string;
  await must(200, world.call('delete', `/api/v1/access-token/${gateway.id}`));
  await must(200, world.call('delete', `/api/v1/workspace/${gone}`));
  await must(200, world.call('post', `${path}/${longAgo.id}/rotate`));
  // Its tombstone has left Redis by itself.
  await redis.admin.del(keyspace.keyText(keyShard(longAgo.key)!, hashKeyText(longAgo.key)));
  const later = await customers.meteredKey('10');
  const { id: billingId } = await customers.billing(untouched.meter);
  await adjust(billingId, '0.5');
  await must(
    200,
    world.call('post', '/api/v1/customer-billing/refill', { workspaceId, externalMeterId: untouched.meter, refill: 5 }),
  );
  await spend(untouched.key, '2');
  await auditLogKept();
  await eventually('all is booked', async () => (await customers.usage(untouched.meter)) === '3.5');
  await restore(world);
  // As if the first usage of the day had been booked after the backup. The consumer knows that it has marked the day.
  await world.sql`delete from usage_marks`;

  // Redis has newer settings, which stay in force; older ones change nothing.
  const refused = await eventually('a change is refused', async () => {
    const answer = await world.call('patch', `${path}/${untouched.id}`, { name: 'changed' });
    return answer.body.error?.code === 50309 ? answer : undefined;
  });
  assert.is(refused.status, 503);
  await eventually('readyz reports it', async () => (await fetch(`${world.api.url}/readyz`)).status === 503);
  await eventually('a metric reports it', async () => (await metric(world.api.url, 'keytally_settings_older')) === 1);
  const auditBroken = () => metric(world.api.url, 'keytally_audit_log_broken');
  await eventually('the audit log lacks lines that Redis remembers', async () => (await auditBroken()) === 1);
  assert.is(await status(disabled.key), 'DISABLED');
  assert.is(await status(rotated.key), 'INVALID');
  assert.is(await status(fresh), 'VALID');
  assert.is(await status(later.key), 'VALID');

  // Redis restarts, and its checkpoints are of another cluster: its shards stay closed, and what they know is kept.
  for (const shard of ALL_SHARDS) await redis.admin.hset(keyspace.meta(shard), 'history', 'another/00000001');
  await redis.end('SIGTERM');
  await redis.start();
  const verified = () => customers.verify({ key: untouched.key });
  await eventually('its shards are closed', async () => (await verified()).status === 503);
  await eventually('the api still says why', async () => {
    const ready = await fetch(`${world.api.url}/readyz`);
    // With its shards, so that it is no answer from before the restart.
    return ready.status === 503 && /"redis":"away".*"settings":"away"/.test(await ready.text());
  });
  await eventually('a metric reports it', async () => (await metric(world.api.url, 'keytally_settings_older')) === 1);
  assert.is((await verified()).status, 503, 'and they stay closed');
  const servings = [world.api, world.verify!].map(async ({ url }) => (await fetch(`${url}/servingz`)).status);
  assert.equal(await Promise.all(servings), [200, 503], 'the api still reads, verify serves nobody');

  const stdout = await runRestored(world);
  for (const id of [disabled.id, rotated.id, longAgo.id, gone, gateway.id, billingId])
    assert.ok(stdout.includes(id), `${id} in ${stdout}`);
  await eventually('it is ready again', async () => (await fetch(`${world.api.url}/readyz`)).ok);
  await eventually('the chain of the audit log goes on', async () => (await auditBroken()) === 0);
  assert.match(
    String(await redis.admin.hget('{00}:meta', 'history')),
    /^\d+\/\w{8}\/\d{13}\/form \d+$/,
    'a history of its own begins',
  );
  assert.is(await status(untouched.key), 'VALID');
  assert.is(await status(disabled.key), 'DISABLED');
  assert.is(await status(rotated.key), 'DISABLED', 'the text of the backup is known again, and refused');
  assert.is(await status(longAgo.key), 'DISABLED', 'likewise');
  assert.is(await status(inGone.key), 'INVALID');
  assert.is((await world.call('get', `/api/v1/workspace/${gone}`)).status, 403);
  assert.is(await status(fresh), 'INVALID', 'a text that Postgres does not know');
  assert.is(await status(later.key), 'INVALID');
  const revoked = await customers.verify({ key: untouched.key }, { token: gateway.token });
  assert.is(revoked.status, 401);

  // Balances come from the books, credits from the backup, and the operator saw the difference.
  const used = async () => (await customers.billing(untouched.meter)).usedCredits;
  await eventually('the balance is that of the books', async () => (await used()) === '3.5');
  await adjust(billingId, '1');
  assert.is(await used(), '4.5', 'its number follows those in the books');
  await must(200, world.call('patch', `${path}/${disabled.id}`, { enabled: true }));
  assert.is(await status(disabled.key), 'VALID');
  const found = await eventually('all is booked', async () => {
    const { body } = await world.call('get', `/api/v1/customer-billing/${billingId}/reconciliation`);
    return body.reconciliation?.status === 'EXACT' ? body.reconciliation : undefined;
  });
  assert.equal([found.usedCredits, found.difference], ['4.5', '0']);
});

async function adjust(billingId: string, amount: string): Promise<void> {
  const headers = once();
  const path = `/api/v1/customer-billing/${billingId}/adjustment`;
  // The api accepts changes again shard by shard, the last shard a moment after it is ready.
  // On a shard that does not accept them yet a change gets 503 after some seconds.
  await must(201, world.call('post', path, { amount, reason: 'a test' }, { headers }));
}

async function spend(key: string, usage: string): Promise<void> {
  const { body } = await must(200, customers.verify({ key, billing: { usage } }, { headers: once() }));
  assert.is(body.status, 'VALID');
}

async function status(key: string): Promise<string> {
  return (await must(200, customers.verify({ key }, { headers: once() }))).body.status;
}

/** Waits until Redis keeps a head of the audit log that the backup lacks. */
async function auditLogKept(): Promise<void> {
  await eventually('Redis keeps the head of the audit log', async () => {
    const [waiting] = await world.sql`select from audit_unchained`;
    const head = await chainHead(world.sql);
    return !waiting && head !== undefined && (await redis.admin.get(keyspace.auditHead())) === headText(head);
  });
}

test.run();
