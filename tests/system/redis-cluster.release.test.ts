import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyShard } from '../../shared/values/key-text.ts';
import { keyspace, OUTBOX_GROUP } from '../../shared/stores/keyspace.ts';
import { makeCustomers, must, type Customers, type TestKey } from '../helpers/customers.ts';
import { eventually, makeWorld, type Answer, type World } from '../helpers/world.ts';
import {
  isInSync,
  isPrimary,
  kill,
  pairOf,
  refuseReplicas,
  restart,
  startRedisCluster,
  takeOver,
  until,
  untilSlotsAreAt,
  type Member,
} from '../helpers/redis-cluster.ts';

// Verification, its credits and its fence on six real servers, with the failovers that a cluster is for.

const folder = mkdtempSync(join(tmpdir(), 'keytally-cluster-'));
const test = suite('redis cluster');
let members: Member[] = [];
let world: World;
let workspaceId: string;
let customers: Customers;
let keys: TestKey[];

test.before(async () => {
  members = await startRedisCluster(folder);
  const seeds = members.map((member) => member.address).join(',');
  world = await makeWorld(['verify', 'consumer'], {
    REDIS_URL: `redis+cluster://${seeds}`,
    VERIFY_DEADLINE_MS: '250',
  });
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'cluster' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
  keys = await Promise.all(Array.from({ length: 24 }, () => customers.meteredKey('1000000')));
});
test.after(async () => {
  await world?.stop();
  for (const member of members) member.client.disconnect();
  await Promise.all(members.map(kill));
  rmSync(folder, { recursive: true, force: true });
});

test('each server of a test cluster begins with an epoch of its own, so that the others accept whoever takes over', async () => {
  // Two of one epoch settle it, but only while both are primaries: then it is another epoch than the one given.
  for (const [i, { client }] of members.slice(0, 3).entries())
    assert.match(await client.cluster('INFO'), new RegExp(`cluster_current_epoch:6\r\ncluster_my_epoch:${i + 1}\r`));
});

test('keys, limits and credits are spread over all servers and exact on each', async () => {
  const holders = new Set<string>();
  for (const member of members.slice(0, 3)) if ((await member.client.dbsize()) > 30) holders.add(member.address);
  assert.is(holders.size, 3);

  const { key, meter } = await customers.meteredKey('300');
  const statuses = await Promise.all(Array.from({ length: 600 }, (_, i) => spendOnce(key, String(i))));
  assert.is(statuses.filter((status) => status === 'VALID').length, 300);
  assert.is(statuses.filter((status) => status === 'USAGE_LIMITED').length, 300);
  assert.is((await customers.billing(meter)).usedCredits, '300');
  await eventually('the books have them', async () => (await customers.usage(meter)) === '300');
});

test('a failover loses no answered debit and no answered change', async () => {
  const changed = keys.slice(0, 12);
  const spent = keys.slice(12);
  const seen = new Map(spent.map(({ meter }) => [meter, 0]));
  const undecided = new Map(spent.map(({ meter }) => [meter, 0]));
  let stopped = false;
  const traffic = Promise.all(
    spent.map(async ({ key, meter }) => {
      while (!stopped) {
        const answer = await spend(key);
        const counts = answer.body.status === 'VALID' ? seen : undecided;
        assert.ok(answer.body.status === 'VALID' || answer.status === 503, answer.text);
        counts.set(meter, counts.get(meter)! + 1);
        await sleep(2);
      }
    }),
  );
  await eventually('every key was spent on', async () => [...seen.values()].every((count) => count > 0));
  const disabled: string[] = [];
  const changes = (async () => {
    for (const { id, key } of changed) {
      const path = `/api/v1/workspace/${workspaceId}/api-key/${id}`;
      if ((await world.call('patch', path, { enabled: false })).status === 200) disabled.push(key);
      await sleep(30);
    }
  })();
  await eventually('a change was answered', async () => disabled.length > 0);
  const [failed, , , follower] = members as [Member, Member, Member, Member];
  await kill(failed);
  await until(() => isPrimary(follower));
  // Alone it has no replica, so its shards stay closed until the failed server comes back as one.
  await eventually('its shards are closed', async () => !(await isReady()));
  await sleep(500);
  assert.not.ok(await isReady());
  for (const { url } of [world.verify!, world.api])
    await eventually('others are served', async () => (await fetch(`${url}/servingz`)).ok);
  await restart(failed);
  await eventually('every shard is open again', isReady);
  await changes;
  await sleep(300);
  stopped = true;
  await traffic;

  for (const key of disabled) assert.is(await spendOnce(key, 'disabled'), 'DISABLED');
  for (const { meter } of spent) {
    const used = Number((await customers.billing(meter)).usedCredits);
    const [least, most] = [seen.get(meter)!, seen.get(meter)! + undecided.get(meter)!];
    assert.ok(least <= used && used <= most, `${meter}: ${least} answered, ${most - least} undecided, ${used} used`);
    await eventually('the books agree', async () => (await customers.usage(meter)) === String(used));
  }
  await until(() => isInSync(failed));
});

test('a debit that no replica had is not booked, and its repeated call is debited once after a failover', async () => {
  const { key, meter } = await customers.meteredKey('10');
  const shard = keyShard(key)!;
  const patient = await world.start('verify', { VERIFY_DEADLINE_MS: '5000' });
  const { primary, replica } = await pairOf(members, shard);
  await refuseReplicas(primary);
  const once = { url: patient.url, body: { key, billing: { usage: '1' } }, headers: { 'Idempotency-Key': 'once' } };
  const balance = keyspace.billing(shard, workspaceId, meter);
  // On a busy machine its deadline may pass before it debits.
  await eventually('it is debited', async () => {
    const asked = await customers.verify(once.body, once);
    assert.equal([asked.status, asked.body.error.code], [503, 50305], asked.text);
    assert.match(asked.body.error.message, /may have been debited\. Repeat it with the same Idempotency-Key/);
    return await primary.client.hget(balance, 'u');
  });
  assert.is(await primary.client.hget(balance, 'u'), '1000000');
  await patient.stop();
  await eventually('the consumer has read it again, or has finished it', () => isRead(primary, shard));

  await kill(primary);
  await takeOver(replica);
  assert.not.ok(await replica.client.hget(balance, 'u'));
  await untilSlotsAreAt(replica, members);
  await restart(primary);
  await until(() => isInSync(primary));
  for (const idempotencyKey of ['once', 'after']) assert.is(await spendOnce(key, idempotencyKey), 'VALID');
  const { id } = await customers.billing(meter);
  const path = `/api/v1/customer-billing/${id}/reconciliation`;
  const isExact = async () => (await world.call('get', path)).body.reconciliation?.status === 'EXACT';
  await eventually('the books are settled', isExact);
  assert.is((await customers.billing(meter)).usedCredits, '2');
  assert.is(await customers.usage(meter), '2');
});

test('a lagging replica that takes over is fenced, and nothing revoked comes back', async () => {
  // These answer without waiting for a replica.
  const api = await world.start('api', { REDIS_MIN_REPLICAS: '0' });
  const lax = await world.start('verify', { REDIS_MIN_REPLICAS: '0' });
  const { primary, replica } = await pairOf(members, keyShard(keys[12]!.key)!);

  await refuseReplicas(primary);
  const disabled = await Promise.all(
    keys.slice(12).map(async ({ id, key }) => {
      const path = `${api.url}/api/v1/workspace/${workspaceId}/api-key/${id}`;
      const disable = async () => (await world.call('patch', path, { enabled: false })).status === 200;
      await eventually('the key is disabled', disable);
      return key;
    }),
  );
  await kill(primary);
  await takeOver(replica);
  const answers: Answer[] = [];
  do {
    answers.push(...(await Promise.all(disabled.map((key) => verify(key, '0', lax)))));
  } while (!(await isReady(lax)));
  for (const answer of answers) assert.ok(answer.status === 503 || answer.body.status === 'DISABLED', answer.text);
  for (const key of disabled) assert.is(await spendOnce(key, 'disabled', lax), 'DISABLED');
  await Promise.all([lax.stop(), api.stop()]);
  await restart(primary);
  await until(() => isInSync(primary));
});

/** Whether the consumer has read every waiting entry of an outbox at least twice, or has emptied it. */
async function isRead({ client }: Member, shard: number): Promise<boolean> {
  const pending = (await client.xpending(keyspace.outbox(shard), OUTBOX_GROUP, '-', '+', 10)) as unknown[][];
  const waiting = await client.xlen(keyspace.outbox(shard));
  return pending.length === waiting && pending.every((entry) => Number(entry[3]) > 1);
}

async function isReady({ url } = world.verify!): Promise<boolean> {
  return (await fetch(`${url}/readyz`)).ok;
}

function verify(key: string, usage = '0', { url } = world.verify!): Promise<Answer> {
  return customers.verify({ key, billing: { usage } }, { url });
}

/** Repeats a call that was not decided, as a client would on a busy machine. */
async function spendOnce(key: string, idempotencyKey: string, { url } = world.verify!): Promise<string> {
  const body = { key, billing: { usage: '1' } };
  const headers = { 'Idempotency-Key': idempotencyKey };
  const decided = await eventually(`${idempotencyKey} is decided`, async () => {
    const answer = await customers.verify(body, { headers, url });
    return answer.status === 200 ? (answer.body.status as string) : undefined;
  });
  return decided;
}

function spend(key: string): Promise<Answer> {
  return verify(key, '1');
}

test.run();
