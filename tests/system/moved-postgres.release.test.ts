import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { removeExpired } from '../../apps/consumer/jobs/expire.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { callScript, defineScripts } from '../../shared/stores/scripts.ts';
import { makeCustomers, must, type Customers } from '../helpers/customers.ts';
import { makeOwnPostgres, type OwnPostgres } from '../helpers/postgres/own-postgres.ts';
import { makeOwnRedis, type OwnRedis, untilOpen } from '../helpers/own-redis.ts';
import { eventually, spawnWorld, type Spawned, type ProcessWorld } from '../helpers/world.ts';

// A checkpoint is a transaction id, and a Postgres that was moved, restored or promoted counts other transactions by the
// same ids. Redis comes back with a checkpoint that says nothing any more; what was disabled stays disabled.

const test = suite('a checkpoint of another history');
let redis: OwnRedis;
let other: OwnPostgres;
let world: ProcessWorld;
let api: Spawned;
let workspaceId: string;
let customers: Customers;
let untouched: { id: string; key: string };

test.before(async () => {
  [redis, other] = await Promise.all([makeOwnRedis('moved'), makeOwnPostgres('moved')]);
  world = await spawnWorld(['verify'], { REDIS_URL: redis.url });
  api = world.api;
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'moved' })).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(async () => {
  await world?.stop();
  await other?.stop();
  await redis?.remove();
});

test('the sweeper never moves a checkpoint back, nor one of another history unless it wrote the whole shard', async () => {
  const meta = '{history}:meta';
  defineScripts(redis.admin);
  await redis.admin.hset(meta, { owner: 'run', checkpoint: '7', history: 'a' });
  const steps: [args: (string | number)[], answer: string, checkpoint: string, history: string][] = [
    [['run', 6, 'a', 'changes'], 'OK', '7', 'a'],
    [['run', 8, 'a', 'changes'], 'OK', '8', 'a'],
    [['run', 9, 'b', 'changes'], 'OTHER', '8', 'a'],
    [['other run', 9, 'b', 'whole'], 'CLOSED', '8', 'a'],
    [['run', 3, 'b', 'whole'], 'OK', '3', 'b'],
    [['run', 2, 'b', 'whole'], 'OK', '3', 'b'],
  ];
  for (const [args, answer, checkpoint, history] of steps) {
    assert.is((await callScript(redis.admin, 'checkpoint', [meta], args))[0], answer, String(args));
    assert.equal(await redis.admin.hmget(meta, 'checkpoint', 'history'), [checkpoint, history], String(args));
  }
});

test('a checkpoint that Postgres has not reached hides no change', async () => {
  const { id, key } = await customers.newKey();
  await everyShardIsOpen();
  await setInAll('checkpoint', '9000000000000000');
  await redis.keep('ahead');
  await everyShardIsOpen();
  await disable(id);
  // Opening has set the checkpoints right; the copy has them as they were.
  await redis.comeBackAs('ahead');
  await everyShardIsOpen();
  assert.is(await status(key), 'DISABLED');
});

test('a checkpoint that names no history hides no change', async () => {
  const { id, key } = await customers.newKey();
  await everyShardIsOpen();
  for (const shard of ALL_SHARDS) await redis.admin.hdel(keyspace.meta(shard), 'history');
  await redis.keep('unnamed');
  await everyShardIsOpen();
  await disable(id);
  // Only what is written whole can be right now.
  await world.sql`delete from changes`;
  await redis.comeBackAs('unnamed');
  await everyShardIsOpen();
  assert.is(await status(key), 'DISABLED');
});

test('a checkpoint from before the last pruned change hides no change', async () => {
  const { id, key } = await customers.newKey();
  await redis.keep('long ago');
  await everyShardIsOpen();
  await disable(id);
  await world.sql`update changes set applied_at = now() - interval '2 days'`;
  await eventually('all changes are pruned', async () => {
    await removeExpired(world.sql, new AbortController().signal);
    return (await world.sql`select from changes`).length === 0;
  });
  await redis.comeBackAs('long ago');
  await everyShardIsOpen();
  assert.is(await status(key), 'DISABLED');
});

test('after Postgres moved to a new cluster by dump and restore, nothing disabled comes back with a Redis that is older', async () => {
  const disabled = await customers.newKey();
  untouched = await customers.newKey();
  await drawTransactionIds();
  await redis.keep('first');
  await everyShardIsOpen();
  assert.is(await status(disabled.key), 'VALID');
  await redis.keep('before');
  await everyShardIsOpen();

  await api.stop('SIGTERM');
  await other.copyFrom(world.env.DATABASE_URL!);
  api = await world.start('api', { DATABASE_URL: other.url });
  await everyShardIsOpen();
  await disable(disabled.id);
  assert.is(await status(disabled.key), 'DISABLED');

  await redis.comeBackAs('before');
  await everyShardIsOpen();
  assert.is(await status(disabled.key), 'DISABLED');
  assert.is(await status(untouched.key), 'VALID');
});

test('when a standby was promoted, open shards take the new history over and never stop serving', async () => {
  const histories = async () => {
    const found = await Promise.all(ALL_SHARDS.map((shard) => redis.admin.hget(keyspace.meta(shard), 'history')));
    return [...new Set(found)];
  };
  const { key } = untouched;
  const [before] = await histories();
  await api.stop('SIGTERM');
  await other.promote();
  api = await world.start('api', { DATABASE_URL: other.url });
  await eventually('all have another history', async () => {
    assert.is(await status(key), 'VALID');
    const found = await histories();
    return found.length === 1 && found[0] !== before;
  });
  const [after] = await histories();
  assert.match(`${before} ${after}`, /^(\d+)\/00000001\/form \d+ \1\/00000002\/form \d+$/);
});

async function disable(id: string): Promise<void> {
  const path = `${api.url}/api/v1/workspace/${workspaceId}/api-key/${id}`;
  await must(200, world.call('patch', path, { enabled: false }));
}

async function status(key: string): Promise<string> {
  return (await must(200, customers.verify({ key }))).body.status;
}

async function setInAll(field: string, value: string): Promise<void> {
  for (const shard of ALL_SHARDS) await redis.admin.hset(keyspace.meta(shard), field, value);
}

function everyShardIsOpen(): Promise<void> {
  return untilOpen(redis, api.url, world.verify!.url);
}

/** Draws more transaction ids than a new cluster has drawn. */
async function drawTransactionIds(): Promise<void> {
  await world.sql.unsafe(`
    create table drawn (n int);
    do $$ begin
      for n in 1..20000 loop
        begin
          insert into drawn values (n);
        exception when others then raise;
        end;
      end loop;
    end $$;
    drop table drawn`);
}

test.run();
