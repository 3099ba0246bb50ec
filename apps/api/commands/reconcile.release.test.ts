import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey, billingRefsAfter } from '../../../shared/books/billing-refs.ts';
import { storeWatermark } from '../../../shared/events/watermark.ts';
import { connectClickHouse } from '../../../shared/stores/clickhouse.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { bookEvents } from '../../../tests/helpers/carry.ts';
import { makeCustomers } from '../../../tests/helpers/customers.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';

const world = await makeWorld();

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
  const { code, out, err } = await tool();
  monitor.disconnect();
  await redis.quit();
  assert.match(out, /^1 exact, 0 differ, /, err);
  assert.is(code, 0);
  assert.ok(asked > 2);
});

test('a record that differs from its books is named with its difference, and the exit code is 1', async () => {
  const [ref] = await billingRefsAfter(world.sql, 'all', '', 1);
  const redis = new Redis(world.env.REDIS_URL!);
  const epoch = Number(await redis.hget(keyspace.meta(ref!.shard), 'epoch'));
  await redis.quit();
  const books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  // As if Redis had been put back to an earlier state than the books.
  const of = { billingId: ref!.id, timeMs: Date.now() - 1_000, epoch, sequence: 1 };
  await bookEvents({ sql: world.sql, books }, Date.now(), [
    testEvent({ ...of, costMicros: 7_000_000, usedMicros: 7_000_000 }),
  ]);
  await books.close();
  // None is on its way.
  await storeWatermark(world.sql, Number.MAX_SAFE_INTEGER - 1);
  const { code, out, err } = await tool();
  assert.match(out, new RegExp(`^${ref!.id} +TOO_MUCH +-7$`, 'm'), err);
  assert.match(out, /^0 exact, 1 differ, /m);
  assert.is(code, 1);
});

/** Runs the operator's command. */
function tool(): Promise<{ code: number; out: string; err: string }> {
  const env = { ...process.env, ...world.env };
  return new Promise((resolve) => {
    execFile(process.execPath, [join(import.meta.dirname, 'reconcile.ts')], { env }, (error, out, err) => {
      resolve({ code: error ? Number(error.code) : 0, out, err });
    });
  });
}
