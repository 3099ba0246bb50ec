// A Redis whose machine dies and takes with it what was not on the disk.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { encodeEvent, EVENT_FIELD } from '../../shared/events/event.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { newId } from '../../shared/values/ids.ts';
import { keyShard, SHARDS } from '../../shared/values/key-text.ts';
import { makeCustomers, type Customers } from '../helpers/customers.ts';
import { testEvent } from '../helpers/events.ts';
import { makeOwnRedis, type OwnRedis } from '../helpers/own-redis.ts';
import { watchSyncedLog } from '../helpers/synced-log.ts';
import { eventually, makeWorld, type World } from '../helpers/world.ts';

// As many as the consumer carries at a time: it waits for no more.
const BATCH = 5_000;
let redis: OwnRedis;
let world: World;
let customers: Customers;

test.before(async () => {
  redis = await makeOwnRedis('disk', { appendfsync: 'everysec' });
  world = await makeWorld(['verify', 'consumer'], { REDIS_URL: redis.url });
  const { id } = (await world.call('post', '/api/v1/workspace', { name: 'disk' })).body.workspace;
  customers = makeCustomers(world, id);
});

test('a call is billed once, repeated with its Idempotency-Key after the machine of Redis died with what was not on its disk', async () => {
  const { key, meter } = await customers.meteredKey('100');
  const spend = (usage: string, once: string) =>
    customers.verify({ key, billing: { usage } }, { headers: { 'Idempotency-Key': once } });
  assert.is((await spend('1', 'first')).body.status, 'VALID');
  await eventually('the first is booked', async () => (await customers.usage(meter)) === '1');

  const others = otherEvents();
  const log = watchSyncedLog(redis.pid(), redis.data);
  await redis.admin.set('probe', '1');
  await eventually('the log is synced', async () => log.syncs() > 0);
  assert.is((await spend('10', 'second')).body.status, 'VALID');
  await others.exec();
  await eventually('the second is booked', async () => (await customers.usage(meter)) === '11');
  log.stop();
  await redis.end('SIGKILL');
  log.cut();
  await redis.start();

  await eventually('it is decided again', async () => (await spend('10', 'second')).body.status === 'VALID');
  await eventually('all is booked', async () => (await redis.admin.xlen(keyspace.outbox(keyShard(key)!))) === 0);
  assert.equal([await customers.usage(meter), (await customers.billing(meter)).usedCredits], ['11', '11']);
});

/** Events of other records, a batch of them, ready to be appended. */
function otherEvents() {
  const pipeline = redis.admin.pipeline();
  for (let i = 0; i < BATCH; i++)
    pipeline.xadd(keyspace.outbox(i % SHARDS), '*', EVENT_FIELD, encodeEvent(testEvent({ id: newId('evt') })));
  return pipeline;
}
