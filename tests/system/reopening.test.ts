import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { reopen } from '../../apps/api/reopen/reopen.ts';
import { adoptHistory, moveCheckpoints } from '../../apps/api/sync/sweeper.ts';
import { rebuildNoted } from '../../shared/books/rebuilding/rebuilder.ts';
import { ApiError, errors } from '../../shared/contract/errors.ts';
import { storeWatermark } from '../../shared/events/watermark.ts';
import { systemClock, type Clock } from '../../shared/runtime/clock.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectClickHouse, type Books } from '../../shared/stores/clickhouse.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { historyOf, prunedJob } from '../../shared/stores/postgres-history.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { ALL_SHARDS } from '../../shared/values/key-text.ts';
import { CANCEL_PATH } from '../../shared/verification/operation.ts';
import { booksProxy } from '../helpers/books-proxy.ts';
import { makeHastyClock } from '../helpers/clock.ts';
import { metric } from '../helpers/metric.ts';
import { connectPatiently } from '../helpers/patient-redis.ts';
import { makeWorld, once, makeCustomers, must, newWorkspace } from '../helpers/world.ts';
import type { World, Customers, TestKey } from '../helpers/world.ts';

// A Redis that was emptied, or came back as it was earlier. The api has stopped: each test reopens the shards itself. What balances, holds and
// adjustments are then, the simulator proves.

type Key = { id: string; key: string };
type Kept = [name: Buffer, value: Buffer, ttlMs: number][];

const log = makeLogger('test', 'silent');
/** A shard that was closed has been closed for long enough, and what is waited for has had its time. */
const hasty = makeHastyClock();
const clock: Clock = {
  ...hasty,
  sleep: async (ms, signal) => {
    if (signal) return systemClock.sleep(ms, signal);
    await Promise.all([hasty.sleep(ms), setInAll('closedAt', '1')]);
  },
};
let world: World;
let redis: ShardedRedis;
let books: Books;
let workspaceId: string;
let customers: Customers;
let [disabled, rotated, later] = [] as unknown as [Key, Key, Key];
let spent: TestKey;
let gateway: { id: string; token: string };
/** With limits: one that is metered, one that is not, and one with a hold that is captured after `older`. */
let [metered, unmetered, holding] = [] as unknown as [Key, Key, Key];
/** What Redis had before the last changes and debits. */
let older: Kept = [];

test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  redis = connectPatiently(world.env.REDIS_URL!, clock);
  await redis.connected(60_000);
  books = connectClickHouse(world.env.CLICKHOUSE_URL!);
  workspaceId = await newWorkspace(world);
  customers = makeCustomers(world, workspaceId);
  [disabled, rotated, spent] = [await customers.newKey(), await customers.newKey(), await customers.meteredKey('10')];
  const token = { name: 'gateway', permissions: ['key:verify'] };
  gateway = (await must(201, world.call('post', '/api/v1/access-token', token))).body.accessToken;
  await spend('3.5');
  const limits = [
    { name: 'calls', unit: 'requests', limit: 4, per: 'year' },
    { name: 'tokens', unit: 'credits', limit: '4', per: 'year', usageName: 'tokens' },
  ];
  const newMeter = () => customers.newMeter({ totalCredits: '10' });
  [metered, unmetered, holding] = [
    await customers.newKey({ limits, externalMeterId: await newMeter() }),
    await customers.newKey({ limits }),
    await customers.newKey({ limits: limits.slice(1), externalMeterId: await newMeter() }),
  ];
  const billing = { usage: '1', usageName: 'tokens', hold: { expiresIn: 600 } };
  const { id: holdId } = (await must(200, customers.verify({ key: holding.key, billing }))).body.hold;
  await world.booked();
  older = await keep();

  await must(200, world.call('post', '/api/v1/usage/capture', { holdId, usage: '3.5' }));
  for (const { key } of [metered, unmetered]) {
    assert.is(await outcomeOf(key, '3.5', 'tokens'), 'VALID');
    assert.is(await outcomeOf(key, '1', 'other'), 'VALID');
    const name = { headers: { 'Idempotency-Key': `cancelled-${key}` } };
    assert.is((await must(200, customers.verify({ key }, name))).body.status, 'VALID');
    await must(200, world.call('post', CANCEL_PATH, { key, idempotencyKey: `cancelled-${key}` }));
  }

  const path = `/api/v1/workspace/${workspaceId}/api-key`;
  await must(200, world.call('patch', `${path}/${disabled.id}`, { enabled: false }));
  await must(200, world.call('post', `${path}/${rotated.id}/rotate`));
  await must(200, world.call('delete', `/api/v1/access-token/${gateway.id}`));
  later = await customers.newKey();
  await world.booked();
  await world.consumer!.stop();
  await world.api.stop();
});
test.after(async () => void (await Promise.all([redis?.close(), books?.close()])));

test('a Redis that comes back older is filled from the books, a second time too, and then a restart empties it no more', async () => {
  const used = async () => (await must(200, customers.verify({ key: metered.key }))).body.billing.usedCredits;
  for (let time = 0; time < 2; time++) {
    await comeBackAs(older);
    await reopenAll();
    assert.is(await used(), '4.5');
  }
  await redis.node(0).client.set(`{00}:z:marker`, '');
  await comeBackAs(await keep());
  await reopenAll();
  assert.is(await redis.node(0).client.unlink(`{00}:z:marker`), 1);
});

test('an emptied Redis stays closed while Postgres is known to be older than it was', async () => {
  const open = (of: { url: string }) => metric(of.url, 'keytally_open_shards');
  assert.is(await open(await world.start('verify')), ALL_SHARDS.length);
  await redis.node(0).client.flushdb();
  const refused = await reopenAll({ isStale: true }).catch((error: ApiError) => error.errorName);
  assert.is(refused, 'postgres_stale');
  assert.is((await customers.verify({ key: spent.key })).status, 503);
  assert.is(await open(world.verify!), 0);
});

test('a Redis that comes back older gets what was changed since, all of it where its checkpoint says nothing of this Postgres, and a later epoch', async () => {
  let before = 0;
  const ways: Record<string, () => Promise<unknown>> = {
    'that changes follow': async () => {},
    'of another history': async () => {
      const kept = await world.sql`delete from changes where id < (select max(id) from changes) returning id`;
      assert.ok(kept.count > 0, 'no change tells any more what is missing');
      await setInAll('history', 'another/00000001');
    },
    'of no history': () => setInAll('history', ''),
    'that Postgres has not reached': () => setInAll('checkpoint', '9000000000000000'),
    // Last, as it holds from then on.
    'from before what was pruned': async () => {
      const [{ history }] = await world.sql<[{ history: string }]>`select ${historyOf(world.sql)} as history`;
      const at = Date.now() * 1_000;
      await world.sql`insert into job_watermarks (job, at) values (${prunedJob(history)}, ${at})`;
    },
  };
  for (const [checkpoint, make] of Object.entries(ways)) {
    await comeBackAs(older);
    // Else all of it would be filled anyway.
    await world.sql`update shards set booked_to = null`;
    await make();
    assert.is((await customers.verify({ key: disabled.key })).status, 503, checkpoint);
    await reopenAll();
    const found = await Promise.all([disabled, rotated, later].map(({ key }) => statusOf(key)));
    assert.equal(found, ['DISABLED', 'INVALID', 'VALID'], checkpoint);
    assert.is((await customers.verify({ key: later.key }, { token: gateway.token })).status, 401, checkpoint);
    const epoch = Number((await inAll('epoch'))[0]);
    assert.ok(epoch > before, checkpoint);
    before = epoch;
  }
});

test('open shards with a checkpoint of another history go on, keep it, and get one of this once they are written whole', async () => {
  await comeBackAs([]);
  await reopenAll();
  await setInAll('history', 'another/00000001');
  const histories = async () => new Set(await inAll('history'));
  await moveCheckpoints(world.sql, redis, { history: '', horizon: 0 });
  assert.equal(await histories(), new Set(['another/00000001']));
  let adopted = 0;
  while (await adoptHistory(world.sql, redis)) adopted += 1;
  assert.is(adopted, ALL_SHARDS.length);
  assert.equal([(await histories()).size, (await histories()).has('another/00000001')], [1, false]);
  assert.is(await statusOf(spent.key), 'VALID');
});

test('a change on a shard that has seen a later one than Postgres knows is refused, and nothing is stored', async () => {
  const api = await world.start('api');
  await setInAll('change', '9000000000000000');
  const path = `${api.url}/api/v1/workspace/${workspaceId}/api-key/${later.id}`;
  const refused = await world.call('patch', path, { name: 'changed' });
  assert.equal([refused.status, refused.body.error.code], [503, errors.postgres_stale[0]]);
  assert.is((await must(200, world.call('get', path))).body.apiKey.name, 'k');
  await api.stop();
});

test('one builder at a time: another one waits for it, is shut out, and takes over once it is dead', async () => {
  const node = redis.node(0);
  const [meta, outbox] = ['{fence}:meta', '{fence}:outbox'];
  const begin = async (token: string) => (await node.script('begin', [meta, outbox], ['run', token], 1_000))[0];
  const write = async (fence: string) =>
    (await node.script('apply', [meta], [fence, Number.MAX_SAFE_INTEGER, 0], 1_000))[0];
  const open = async (token: string) => (await node.script('open', [meta], ['run', token, 2, 7, 'a'], 1_000))[0];
  assert.equal([await begin('first'), await begin('second'), await begin('first')], ['CLAIMED', 'BUSY', 'CLAIMED']);
  const written = [await write('build:first'), await write('build:second'), await write('run')];
  assert.equal(written, ['OK', 'CLOSED', 'CLOSED']);
  assert.equal([await open('second'), await open('first')], ['LOST', 'WAIT']);
  // A claim of before the clock was set back by an hour.
  await node.client.hset(meta, 'buildUntil', (await redis.now()) + 3_600_000);
  assert.equal([await begin('second'), await begin('first')], ['CLAIMED', 'BUSY']);
  await node.client.hset(meta, 'buildUntil', 1);
  assert.is(await begin('first'), 'CLAIMED');
  await node.client.hset(meta, 'buildUntil', 1);
  assert.equal([await begin('second'), await open('first'), await write('build:first')], ['CLAIMED', 'LOST', 'CLOSED']);
  await node.client.hset(meta, 'closedAt', 1);
  assert.equal([await open('second'), await begin('third'), await write('run')], ['OPEN', 'OPEN', 'OK']);
  await node.client.hset(meta, 'owner', 'of an older run');
  assert.equal([await write('run'), await begin('third')], ['CLOSED', 'CLAIMED']);
});

test('a checkpoint never goes back within its history', async () => {
  const meta = '{history}:meta';
  const { client } = redis.node(0);
  await client.hset(meta, { owner: 'run', checkpoint: '7', history: 'a' });
  const steps: [args: (string | number)[], answer: string, checkpoint: string, history: string][] = [
    [['run', 6, 'a', 'changes'], 'OK', '7', 'a'],
    [['run', 8, 'a', 'changes'], 'OK', '8', 'a'],
    [['run', 9, 'b', 'changes'], 'OTHER', '8', 'a'],
    [['other run', 9, 'b', 'whole'], 'CLOSED', '8', 'a'],
    [['run', 3, 'b', 'whole'], 'OK', '3', 'b'],
    [['run', 2, 'b', 'whole'], 'OK', '3', 'b'],
  ];
  for (const [args, answer, checkpoint, history] of steps) {
    assert.is((await redis.node(0).script('checkpoint', [meta], args, 1_000))[0], answer, String(args));
    assert.equal(await client.hmget(meta, 'checkpoint', 'history'), [checkpoint, history], String(args));
  }
});

test('limits of an emptied Redis go on where they were: by usage name, without what was cancelled, with captures', async () => {
  await comeBackAs([]);
  await reopenAll();
  for (const { key } of [metered, unmetered]) {
    const ofTokens = [await outcomeOf(key, '1', 'tokens'), await outcomeOf(key, '0.4', 'tokens')];
    assert.equal(ofTokens, ['LIMIT_REACHED', 'VALID']);
    assert.equal([await outcomeOf(key, '1', 'other'), await outcomeOf(key, '0', 'other')], ['VALID', 'RATE_LIMIT']);
  }
  const ofHold = [await outcomeOf(holding.key, '1', 'tokens'), await outcomeOf(holding.key, '0.4', 'tokens')];
  assert.equal(ofHold, ['LIMIT_REACHED', 'VALID']);
});

test('an emptied shard stays closed while the books cannot tell what limits had counted, and opens without a balance that they cannot tell', async () => {
  let refused = unmetered.id;
  // As a server does that runs out of memory on some requests.
  const refusing = await booksProxy(world.env.CLICKHOUSE_URL!, ({ body, path, answer }) => {
    if (!body.includes(refused) && !decodeURIComponent(path).includes(refused)) return 'passed';
    answer.writeHead(500, { 'x-clickhouse-exception-code': '241' });
    answer.end('Code: 241. DB::Exception: Memory limit exceeded (MEMORY_LIMIT_EXCEEDED)\n');
    return 'kept';
  });
  const refusedBooks = connectClickHouse(refusing.url);
  await comeBackAs([]);
  const error = await reopenAll({ books: refusedBooks }).then(() => 'opened', String);
  assert.not.match(error, 'opened');
  assert.is((await customers.verify({ key: unmetered.key })).status, 503);

  const [{ id }] = await world.sql<[{ id: string }]>`
    select id from billing_records where external_meter_id = ${spent.meter}`;
  refused = id;
  await comeBackAs([]);
  await reopenAll({ books: refusedBooks });
  assert.is(await outcomeOf(metered.key, '0', 'other'), 'VALID');
  const undecided = await customers.verify({ key: spent.key });
  assert.equal([undecided.status, undecided.body.error.code], [503, errors.undecided[0]]);
  await storeWatermark(world.sql, 9e15);
  assert.is(await rebuildNoted({ sql: world.sql, redis, books, log }), 1);
  assert.is((await spend('0')).billing.usedCredits, '3.5');
  await refusedBooks.close();
});

async function reopenAll({ isStale = false, books: from = books } = {}): Promise<void> {
  const refuse = () => {
    if (isStale) throw new ApiError('postgres_stale');
  };
  const stores = { sql: world.sql, redis, books: from, log, stalePostgres: { note: () => {}, refuse } };
  await reopen(stores, redis.node(0), [...ALL_SHARDS]);
}

async function statusOf(key: string): Promise<string> {
  return (await must(200, customers.verify({ key }))).body.status;
}

async function outcomeOf(key: string, usage: string, usageName: string): Promise<string> {
  const { status, reason } = (await must(200, customers.verify({ key, billing: { usage, usageName } }))).body;
  return reason ?? status;
}

async function spend(usage: string) {
  const { body } = await must(200, customers.verify({ key: spent.key, billing: { usage } }, { headers: once() }));
  assert.is(body.status, 'VALID');
  return body;
}

function inAll(field: string): Promise<(string | null)[]> {
  return Promise.all(ALL_SHARDS.map((shard) => redis.node(0).client.hget(keyspace.meta(shard), field)));
}

async function setInAll(field: string, value: string): Promise<void> {
  await Promise.all(ALL_SHARDS.map((shard) => redis.node(0).client.hset(keyspace.meta(shard), field, value)));
}

async function keep(): Promise<Kept> {
  const { client } = redis.node(0);
  const names = await client.keysBuffer('*');
  return Promise.all(
    names.map(async (name): Promise<Kept[number]> => {
      return [name, await client.dumpBuffer(name), Math.max(0, await client.pttl(name))];
    }),
  );
}

/** As a server does that starts again with an older disk: it has another run id than the one that its shards name. */
async function comeBackAs(kept: Kept): Promise<void> {
  // In one step: verify must not write in between.
  const step = redis.node(0).client.multi().flushdb();
  for (const [name, value, ttlMs] of kept) step.restore(name, ttlMs, value);
  for (const shard of ALL_SHARDS) step.hset(keyspace.meta(shard), 'owner', 'of an older run');
  for (const [error] of (await step.exec())!) if (error) throw error;
}
