import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey, billingRefsAfter } from '../../../shared/books/billing-refs.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { makeCustomers } from '../../../tests/helpers/customers.ts';
import { makeWorld, type World } from '../../../tests/helpers/world.ts';

let world: World;
test.before(async () => void (world = await makeWorld()));
test.after(() => world?.stop());

test('what Redis refuses for a moment is asked again: a shard is closed for one after a restore', async () => {
  const { id } = (await world.call('post', '/api/v1/workspace', { name: 'restored' })).body.workspace;
  await makeCustomers(world, id).meteredKey('100');
  const [ref] = await billingRefsAfter(world.sql, 'all', '', 1);
  const redis = new Redis(world.env.REDIS_URL!);
  // It would open the shard again.
  await world.api.stop();
  const meta = keyspace.meta(ref!.shard);
  const owner = (await redis.hget(meta, 'owner'))!;
  await redis.hset(meta, 'owner', 'another');
  const monitor = await redis.monitor();
  let asked = 0;
  monitor.on('monitor', (_time: string, [command, name]: string[]) => {
    if (command?.toLowerCase() !== 'hgetall' || name !== billingKey(ref!)) return;
    asked += 1;
    if (asked === 2) void redis.hset(meta, 'owner', owner);
  });
  const { out, err } = await tool();
  monitor.disconnect();
  await redis.quit();
  assert.match(out, /^1 exact, 0 differ, /, err);
  assert.ok(asked > 2);
});

test.run();

/** Runs the operator's command. */
function tool(): Promise<{ out: string; err: string }> {
  const env = { ...process.env, ...world.env };
  return new Promise((resolve) => {
    execFile(process.execPath, [join(import.meta.dirname, 'reconcile.ts')], { env }, (_error, out, err) => {
      resolve({ out, err });
    });
  });
}
