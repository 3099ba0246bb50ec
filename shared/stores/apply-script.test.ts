// How changes of Postgres are written to a shard: apply.lua on a real Redis.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { BEGIN_MS, connectClockedRedis } from '../../tests/helpers/clocked-redis.ts';
import { keyspace } from './keyspace.ts';

const SHARD = 7;
const [META, TEXT, HASH] = [keyspace.meta(SHARD), '{07}:text', '{07}:hash'];

const clocked = await connectClockedRedis();
const node = clocked.redis.node(SHARD);
test.before.each(async () => {
  await clocked.empty();
  await node.client.hset(META, { owner: node.runId(), epoch: 1, writes: 5, change: 10 });
});

type Written = { key: string; field?: string; value: string; lifetime?: number };

/** Writes records; gives the status, and for each record that was left alone its place and its version there. */
async function apply(written: Written[], { change = 11, fence = node.runId(), notAfterMs = 9e15 } = {}) {
  const args = written.flatMap(({ field = '', value, lifetime = 0 }) => [field, value, lifetime]);
  const keys = [META, ...written.map(({ key }) => key)];
  const [status, , ...left] = await node.script('apply', keys, [fence, notAfterMs, change, ...args], 30_000);
  return [status, ...left].join(' ');
}

const stored = async () => [await node.client.get(TEXT), await node.client.hget(HASH, 'f')];
const both = (version: number, what: string): Written[] => [
  { key: TEXT, value: `${version}\0${what}` },
  { key: HASH, field: 'f', value: `${version}\0${what}` },
];

test('an older version never takes the place of a newer one, which is told; the same one is written again', async () => {
  assert.is(await apply(both(9, 'first')), 'OK');
  assert.is(await apply(both(10, 'second')), 'OK');
  assert.is(await apply(both(9, 'late')), 'OK 2 10 3 10');
  assert.equal(await stored(), ['10\0second', '10\0second']);
  assert.is(await apply(both(10, 'again')), 'OK');
  assert.equal(await stored(), ['10\0again', '10\0again']);
});

test('nor does the removal of an older version take away a newer one; that of a newer one does', async () => {
  const removal = (version: number) => both(version, '').map((one) => ({ ...one, lifetime: -1 }));
  await apply(both(10, 'kept'));
  assert.is(await apply(removal(9)), 'OK 2 10 3 10');
  assert.equal(await stored(), ['10\0kept', '10\0kept']);
  assert.is(await apply(removal(11)), 'OK');
  assert.equal(await stored(), [null, null]);
});

test('a record with a lifetime ends with it, and one that is written again without one stays', async () => {
  await apply([{ key: TEXT, value: '1\0', lifetime: 600 }]);
  assert.ok((await node.client.ttl(TEXT)) > 0);
  await apply([{ key: TEXT, value: '2\0' }]);
  assert.is(await node.client.ttl(TEXT), -1);
});

test('a billing record whose account lacks its settings is due at once, and no other one', async () => {
  const plain = (version: number) => `${version}\0bill\x005\0\0`;
  const withClasses = (version: number) => `${version}\0bill\0@\0\x000\0\0`;
  const name = keyspace.billing(SHARD, 'ws', 'm');
  const dueAfter = async (value: string, used: string) => {
    await node.client.del(keyspace.due(SHARD));
    await node.client.hset(name, 'u', used);
    await apply([{ key: name, field: 's', value }]);
    return node.client.zrange(keyspace.due(SHARD), 0, -1, 'WITHSCORES');
  };
  assert.equal(await dueAfter(plain(1), '3'), []);
  assert.equal(await dueAfter(withClasses(2), '3'), [name, '0']);
  assert.equal(await dueAfter(withClasses(2), '@'), [], 'nothing new');
  assert.equal(await dueAfter(plain(3), '@'), [name, '0'], 'the account that a hold made');
  assert.equal(await dueAfter(plain(2), '@'), [], 'an older version');
});

test('each call counts a write, which ends every lookup of the shard, and the last change never goes back', async () => {
  for (const [change, expected] of [
    [11, ['6', '11']],
    [7, ['7', '11']],
    [100, ['8', '100']],
  ] as const) {
    await apply([], { change });
    assert.equal(await node.client.hmget(META, 'writes', 'change'), expected);
  }
});

test('what is no record holds up no other one: a hash is told as corrupt, and a text is replaced', async () => {
  await node.client.rpush(HASH, 'a list');
  await node.client.rpush(TEXT, 'a list');
  assert.is(await apply(both(9, 'good')), 'OK 3 CORRUPT');
  assert.is(await node.client.get(TEXT), '9\0good');
});

test('a shard that is not open, and a call that comes too late, take nothing', async () => {
  await clocked.setNow(BEGIN_MS);
  assert.is(await apply(both(9, 'x'), { notAfterMs: BEGIN_MS - 1 }), 'LATE');
  assert.is(await apply(both(9, 'x'), { fence: 'another server' }), 'CLOSED');
  assert.equal(await stored(), [null, null]);
  assert.is(await node.client.hget(META, 'writes'), '5');
  assert.is(await apply(both(9, 'x'), { notAfterMs: BEGIN_MS }), 'OK');
});

test('what is removed from a shard takes no entry of its log along, which goes on behind what is booked of it, or further on', async () => {
  const outbox = keyspace.outbox(SHARD);
  await apply(both(9, 'first'));
  await node.client.hset(META, 'build', 'token');
  await node.client.xadd(outbox, '5-1', 'e', 'text');
  for (const bookedTo of ['7-2', '6-9', ''])
    assert.is((await node.script('wipe', [META, outbox, TEXT], ['token', bookedTo], 30_000))[0], 'OK');
  const about = (await node.client.xinfo('STREAM', outbox)) as unknown[];
  const last = about[about.indexOf('last-generated-id') + 1];
  assert.equal([await stored(), await node.client.xlen(outbox), last], [[null, '9\0first'], 1, '7-2']);
});
