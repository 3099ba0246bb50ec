import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readBalances } from '../../../shared/books/balances.ts';
import { billingKey, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { recordOf } from '../../../tests/helpers/pass-time.ts';
import { leaveAdjustment } from '../tests/helpers/background.ts';
import { isPostgresStale, moveCheckpoints, sweep } from './sweeper.ts';
import { callsOf, makeCustomers, makeWorld, newWorkspace, once } from '../tests/helpers/calls.ts';

// What can't be brought into force holds up nothing else.

const world = await makeWorld();
const { redis } = world;
const { read, make } = callsOf(world);
const workspaceId = await newWorkspace(world);
const customers = makeCustomers(world, workspaceId);
const records = [await accountOf('10'), await accountOf('10'), await accountOf('10')];
// It would sweep, too.
await world.api.stop();

test('adjustments of records that are damaged wait, each, and hold up no other change', async () => {
  const damages: ((one: Damaged) => Promise<unknown>)[] = [
    ({ client, name }) => client.hdel(name, 't'),
    ({ client, name, fields }) => client.hset(name, 'u', fields.u!.subarray(0, 8)),
    ({ client, name }) => client.hset(name, 'a', 'x'),
  ];
  for (const [i, one] of records.entries()) {
    await damages[i]!(one);
    for (const number of [1, 2]) await leaveAdjustment(world, one, { number, credits: number, minutesAgo: 1 });
  }
  const token = await leaveToken();
  const [{ before }] = await world.sql<[{ before: string }]>`select now()::text as before`;
  assert.is(await sweep(world.sql, redis), 7);
  assert.equal([await waiting(token.id), await redis.node(token.shard).client.exists(token.name)], [0, 1]);
  for (const { id, client, name, fields } of records) {
    assert.is(await waitingAdjustments(id), 2);
    await client.hset(name, fields);
    if (fields.a === undefined) await client.hdel(name, 'a');
  }
  const left = world.sql`select from changes where applied_at is null and created_at < ${before}::timestamptz`;
  assert.is((await left).count, 0, 'what has to wait is due again some seconds later');
  await world.sql`update changes set created_at = now() - interval '1 minute' where applied_at is null`;
  await sweep(world.sql, redis);
  for (const one of records) {
    assert.is(await waitingAdjustments(one.id), 0);
    const [balance] = await readBalances(redis, [one]);
    assert.is(balance!.usedMicros, 3_000_000);
  }
});

test('who applies an adjustment that another gave, which stands still, writes the settings first that it left', async () => {
  const [one] = records as [Damaged];
  await world.sql`update billing_records set version = version + 1 where id = ${one.id}`;
  await leaveAdjustment(world, one, { number: 3, credits: 1 });
  await leaveAdjustment(world, one, { number: 4, credits: 1, minutesAgo: 1 });
  assert.is(await sweep(world.sql, redis), 1);
  const [balance] = await readBalances(redis, [one]);
  const [{ version }] = await world.sql<
    [{ version: number }]
  >`select version from billing_records where id = ${one.id}`;
  assert.equal([balance!.adjustment, balance!.version], [4, version]);
});

test('a record whose name something else holds is tried again in one change, and no checkpoint waits for it', async () => {
  const [{ id, shard, name, client }] = records as [Damaged];
  await client.rename(name, `${name} set aside`);
  await client.set(name, 'no hash');
  // Two processes died after their commits.
  await world.sql`
    insert into changes (kind, entity_id, shard, created_at)
    select 'billing', ${id}, ${shard}, now() - interval '1 minute' from generate_series(1, 2)`;
  await sweep(world.sql, redis);
  const putBack = () => world.sql`select from changes where entity_id = ${id} and applied_at is null and is_put_back`;
  assert.equal([(await putBack()).count, await waiting(id)], [1, 1]);
  await world.newToken(world.team.id, []);
  const { horizon } = await moveCheckpoints(world.sql, redis, { history: '', horizon: 0 });
  assert.ok(horizon > 0, 'the checkpoint passes it');
  assert.is(Number(await client.hget(keyspace.meta(shard), 'checkpoint')), horizon);
  await client.rename(`${name} set aside`, name);
  await world.sql`update changes set created_at = now() - interval '1 minute' where applied_at is null`;
  await sweep(world.sql, redis);
  assert.is(await waiting(id), 0);
  const [last] = await world.sql<[{ tx: number }]>`
    select max(tx)::text::bigint as tx from changes where entity_id = ${id} and is_put_back`;
  assert.ok(last.tx >= horizon, 'a reopening that has lost it loads it, for all that the checkpoint has passed');
});

test('a Postgres that lost its last change is older, for all that its sequence counts ahead', async () => {
  const [{ shard, client }] = records as [Damaged];
  const meta = keyspace.meta(shard);
  const had = (await client.hget(meta, 'change'))!;
  const [{ lost }] = await world.sql<[{ lost: number }]>`select max(id) + 1 as lost from changes`;
  await world.sql`select setval('changes_id_seq', ${lost + 31})`;
  assert.is(await isPostgresStale(world.sql, redis, [shard]), false);
  await client.hset(meta, 'change', lost);
  assert.is(await isPostgresStale(world.sql, redis, [shard]), true);
  await client.hset(meta, 'change', had);
});

type Damaged = BillingRef & {
  name: string;
  fields: Record<string, Buffer>;
  client: ReturnType<ShardedRedis['node']>['client'];
};

/** A record with an account, and all fields that it has in Redis. */
async function accountOf(totalCredits: string): Promise<Damaged> {
  const { id } = await customers.billing(await customers.newMeter({ totalCredits }));
  await make(`/api/v1/customer-billing/${id}/grant`, { credits: '5', priority: 10 }, once());
  // Whoever reads it brings it up to date.
  await read(`/api/v1/customer-billing/${id}`);
  const record = await recordOf(world.sql, id);
  const [{ client }, name] = [redis.node(record.shard), billingKey(record)];
  const fields = await client.hgetallBuffer(name);
  assert.ok(fields.t, 'it has an account');
  return { ...record, name, fields, client };
}

async function waiting(id: string): Promise<number> {
  return (await world.sql`select from changes where entity_id = ${id} and applied_at is null`).count;
}

async function waitingAdjustments(billingId: string): Promise<number> {
  const rows = await world.sql`
    select from changes c join adjustments a on a.id = c.entity_id
    where a.billing_id = ${billingId} and c.applied_at is null`;
  return rows.count;
}

/** An access token of which Redis has yet to hear. */
async function leaveToken(): Promise<{ id: string; shard: number; name: string }> {
  await world.newToken(world.team.id, ['key:verify']);
  const [token] = await world.sql<[{ id: string; shard: number; hash: string }]>`
    select id, shard, hash from access_tokens order by id desc limit 1`;
  const name = keyspace.token(token.shard, token.hash);
  await redis.node(token.shard).client.del(name);
  await world.sql`
    update changes set applied_at = null, created_at = now() - interval '1 minute' where entity_id = ${token.id}`;
  return { ...token, name };
}
