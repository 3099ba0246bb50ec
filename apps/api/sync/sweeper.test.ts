import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace, meterShard } from '../../../shared/stores/keyspace.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { newId } from '../../../shared/values/ids.ts';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { connectTestRedis, eventually, makeWorld, type World } from '../../../tests/helpers/world.ts';

// What can't be brought into force holds up nothing else.

const test = suite('the sweeper');
let world: World;
let redis: ShardedRedis;
let workspaceId: string;
let customers: Customers;

test.before(async () => {
  world = await makeWorld();
  redis = await connectTestRedis();
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

test('adjustments of records that are damaged wait, each, and hold up no other change', async () => {
  const damages: ((one: Damaged) => Promise<unknown>)[] = [
    ({ client, name }) => client.hdel(name, 't'),
    ({ client, name, fields }) => client.hset(name, 'u', fields.u!.slice(0, 8)),
    ({ client, name }) => client.hset(name, 'a', 'x'),
  ];
  const records: Damaged[] = [];
  for (const damage of damages) {
    const one = await accountOf('10');
    await damage(one);
    records.push(one);
  }
  for (const { id, shard } of records) await leaveAdjustments(id, shard, 2);
  await world.newToken(world.team.id, ['key:verify']);
  await eventually('all other changes are applied', async () => (await waiting('token')) === 0);
  assert.is(await waiting('adjustment'), 6);
  for (const { client, name, fields } of records) {
    await client.hset(name, fields);
    if (fields.a === undefined) await client.hdel(name, 'a');
  }
  await eventually('they are applied', async () => (await waiting('adjustment')) === 0);
  for (const { meter } of records) assert.is((await customers.billing(meter)).usedCredits, '3');
});

test('a record whose name something else holds is tried again in one change, and no checkpoint waits for it', async () => {
  const meter = await customers.newMeter({ totalCredits: '10' });
  const { id } = await customers.billing(meter);
  const shard = meterShard(workspaceId, meter);
  const [client, name] = [redis.node(shard).client, keyspace.billing(shard, workspaceId, meter)];
  await client.rename(name, `${name} set aside`);
  await client.set(name, 'no hash');
  await leaveChange(id, shard);
  await leaveChange(id, shard);
  const putBack = () => world.sql`select from changes where entity_id = ${id} and applied_at is null and is_put_back`;
  await eventually('it is put back', async () => (await putBack()).count > 0 && (await waiting('billing')) === 1);
  await customers.newKey();
  const [row] = await world.sql<[{ horizon: number }]>`select pg_current_xact_id()::text::bigint as horizon`;
  const checkpoint = async () => Number(await client.hget(keyspace.meta(shard), 'checkpoint'));
  await eventually('the checkpoint passes it', async () => (await checkpoint()) > row.horizon);
  assert.is((await putBack()).count, 1);
  await client.rename(`${name} set aside`, name);
  await eventually('it is applied', async () => (await putBack()).count === 0);
  const [last] = await world.sql<[{ tx: number }]>`
    select max(tx)::text::bigint as tx from changes where entity_id = ${id} and is_put_back`;
  assert.ok(last.tx > row.horizon, 'a reopening that has lost it loads it, for all that the checkpoint has passed');
});

test.run();

type Damaged = {
  id: string;
  meter: string;
  shard: number;
  name: string;
  fields: Record<string, string>;
  client: ReturnType<ShardedRedis['node']>['client'];
};

/** A record with an account, and all fields that it has in Redis. */
async function accountOf(totalCredits: string): Promise<Damaged> {
  const meter = await customers.newMeter({ totalCredits });
  const { id } = await customers.billing(meter);
  const headers = { 'Idempotency-Key': id };
  const grant = { credits: '5', priority: 10 };
  await must(201, world.call('post', `/api/v1/customer-billing/${id}/grant`, grant, { headers }));
  const shard = meterShard(workspaceId, meter);
  const [{ client }, name] = [redis.node(shard), keyspace.billing(shard, workspaceId, meter)];
  const fields = await client.hgetall(name);
  assert.ok(fields.t, 'it has an account');
  return { id, meter, shard, name, fields, client };
}

async function waiting(kind: string): Promise<number> {
  return (await world.sql`select from changes where kind = ${kind} and applied_at is null`).count;
}

/** What a process leaves that dies after its commit. */
async function leaveChange(id: string, shard: number): Promise<void> {
  await world.sql`
    insert into changes (kind, entity_id, shard, created_at) values ('billing', ${id}, ${shard}, now() - interval '1 minute')`;
}

/** The same of adjustments by 1, 2, 3… credits. */
async function leaveAdjustments(id: string, shard: number, count: number): Promise<void> {
  await world.sql`update billing_records set last_adjustment = ${count} where id = ${id}`;
  for (let number = 1; number <= count; number++) {
    const entityId = newId('evt');
    await world.sql`
      insert into adjustments (id, team_id, billing_id, number, amount_micros, usage_name, day, reason, token_id, request_id)
      select ${entityId}, ${world.team.id}, ${id}, ${number}, ${number * 1_000_000}, 'default', '2026-02-01', 'r', min(id), 'r'
      from access_tokens where team_id = ${world.team.id}`;
    await world.sql`
      insert into changes (kind, entity_id, shard, created_at)
      values ('adjustment', ${entityId}, ${shard}, now() - interval '1 minute')`;
  }
}
