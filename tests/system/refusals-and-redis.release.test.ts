// Refusals are counted while Redis is unavailable, full or emptied, and verify goes on.
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readMemory } from '../../shared/events/outbox-watch.ts';
import { connectClickHouse, type Books } from '../../shared/stores/clickhouse.ts';
import { makeCustomers, must, type Customers } from '../helpers/customers.ts';
import { metric } from '../helpers/metric.ts';
import { makeOwnRedis, untilOpen, type OwnRedis } from '../helpers/own-redis.ts';
import { eventually, makeWorld, wireTo, type Started, type Wire, type World } from '../helpers/world.ts';

const LIMIT = 64 * 1024 * 1024;
const test = suite('refusals and Redis');
let redis: OwnRedis;
let world: World;
let books: Books;
let customers: Customers;
/** Between a verify of its own and Redis. */
let wire: Wire;
let wired: Started;

test.before(async () => {
  redis = await makeOwnRedis('refusals', { maxmemory: LIMIT });
  world = await makeWorld(['verify', 'consumer'], { REDIS_URL: redis.url });
  books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  const workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
  wire = await wireTo(redis.url);
  wired = await world.start('verify', { REDIS_URL: wire.url });
});
test.after(async () => {
  await books?.close();
  await world?.stop();
  await wire?.cut();
  await redis?.remove();
});

test('counts wait while Redis is unavailable, none is lost, and none counts twice', async () => {
  const refused = await customers.newKey({ enabled: false });
  const valid = await customers.newKey();
  for (let round = 1; round <= 3; round++) {
    await refuse(refused.key, 20, wired.url);
    await wire.cut();
    await eventually('nothing is decided', async () => (await verify(valid.key, wired.url)).status === 503);
    assert.ok((await fetch(`${wired.url}/healthz`)).ok);
    await wire.mend();
    await eventually('it goes on', async () => (await verify(valid.key, wired.url)).body.status === 'VALID');
    await untilCounted(refused.id, 20 * round);
  }
  assert.is(await metric(wired.url, 'keytally_dropped_outcomes_total'), 0);
});

test('counts wait while Redis has no memory to spare, and what needs none is decided', async () => {
  const refused = await customers.newKey({ enabled: false });
  const valid = await customers.newKey();
  const { usedBytes } = await readMemory(redis.admin);
  await redis.admin.config('SET', 'maxmemory', Math.round(usedBytes / 0.92));
  await eventually('verify knows', async () => (await metric(wired.url, 'keytally_redis_memory_limit_bytes')) < LIMIT);
  const seen = async () => metric(wired.url, 'keytally_refusals_total');
  const [before, appended] = [await seen(), await callsOf('xadd')];
  await refuse(refused.key, 20, wired.url);
  assert.is((await verify(valid.key, wired.url)).body.status, 'VALID');
  await eventually('they would be told', async () => (await seen()) === before + 20);
  await refuse(refused.key, 1, wired.url);
  await eventually('a second later', async () => (await seen()) === before + 21);
  assert.is(await callsOf('xadd'), appended);
  await redis.admin.config('SET', 'maxmemory', LIMIT);
  await untilCounted(refused.id, 21);
  assert.is(await metric(wired.url, 'keytally_dropped_outcomes_total'), 0);
});

test('an emptied Redis takes with it at most what was on its way, and counts go on', async () => {
  const refused = await customers.newKey({ enabled: false });
  await refuse(refused.key, 20, wired.url);
  await untilCounted(refused.id, 20);
  await redis.admin.flushall();
  await untilOpen(redis, world.api.url, wired.url);
  await eventually('it is known again', async () => (await verify(refused.key, wired.url)).body.status === 'DISABLED');
  await eventually('it is counted', async () => (await counted(refused.id)) === 21);
});

async function refuse(key: string, times: number, url: string): Promise<void> {
  for (let i = 0; i < times; i++) assert.is((await verify(key, url)).body.status, 'DISABLED');
}

function verify(key: string, url: string) {
  return customers.verify({ key }, { url });
}

async function untilCounted(keyId: string, calls: number): Promise<void> {
  await eventually(`${calls} calls are counted`, async () => (await counted(keyId)) >= calls);
  assert.is(await counted(keyId), calls);
}

/** How often Redis ran a command, also inside of scripts. */
async function callsOf(command: string): Promise<number> {
  const stats = await redis.admin.info('commandstats');
  return Number(new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0);
}

async function counted(keyId: string): Promise<number> {
  const query = 'select sum(calls) as calls from refusals final where key_id = {keyId:String}';
  const answer = await books.client.query({ query, query_params: { keyId }, format: 'JSONEachRow' });
  return Number((await answer.json<{ calls: string }>())[0]!.calls);
}

test.run();
