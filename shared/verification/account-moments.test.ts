import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { classOf, endingClass, settingsOf } from '../../tests/accounts/begin.ts';
import { BEGIN_MS, connectClockedRedis } from '../../tests/helpers/clocked-redis.ts';
import { readHotAccount } from '../books/account-state.ts';
import { readEvents } from '../../tests/helpers/outbox.ts';
import { makeLogger } from '../runtime/log.ts';
import { keyspace } from '../stores/keyspace.ts';
import { newId } from '../values/ids.ts';
import { bringUpToDate, startDoingMoments } from './account-moments.ts';

const SHARD = 7;
const ENDS_MS = BEGIN_MS + 700;
const clocked = await connectClockedRedis();
const { redis } = clocked;

/** A record with 5 micro-credits without an end and 100 that end soon, of which 60 are used. */
async function makeRecord() {
  const node = redis.node(SHARD);
  await clocked.empty();
  await node.client.hset(keyspace.meta(SHARD), { owner: node.runId(), epoch: 3, writes: 1 });
  const billingId = newId('bill');
  const key = keyspace.billing(SHARD, newId('ws'), billingId);
  const classes = [classOf({ begunMicros: 5 }), endingClass(ENDS_MS, 100)];
  await node.client.hset(key, { s: settingsOf(billingId, classes), u: 60 });
  const amounts = async () => {
    const hot = readHotAccount((await node.client.hgetBuffer(key, 'u')) ?? undefined)!;
    return [hot.usedMicros, hot.heldMicros, hot.totalMicros, hot.expiredMicros];
  };
  return { client: node.client, key, amounts };
}

test('an account is brought up to date at its moment though nobody calls, once, and then nothing more is due', async () => {
  const { client, key, amounts } = await makeRecord();
  await bringUpToDate(redis, SHARD, key);
  assert.equal(await amounts(), [60, 0, 105, 0]);
  // Two processes, each of which ends its look before it stops.
  const lookTwice = () => Promise.all([1, 2].map(() => startDoingMoments(redis, makeLogger('test', 'error')).stop()));
  await clocked.setNow(ENDS_MS - 1);
  await lookTwice();
  assert.equal(await client.zrange(keyspace.due(SHARD), 0, -1, 'WITHSCORES'), [key, String(ENDS_MS)]);
  await clocked.setNow(ENDS_MS);
  await lookTwice();
  assert.is((await amounts())[3], 45);
  assert.is(await client.zcard(keyspace.due(SHARD)), 0);
  const entries = await client.xrange(keyspace.outbox(SHARD), '-', '+');
  const lines = entries.flatMap(([, fields]) => readEvents(fields));
  const found = lines.map(({ kind, sequence }) => `${kind} ${sequence}`);
  assert.equal(found, ['moment 1', 'moment 2']);
});

test('a record that is gone, or plain, is due no more', async () => {
  const { client, key } = await makeRecord();
  await client.zadd(keyspace.due(SHARD), 1, `${key}-gone`);
  await client.hset(`${key}-plain`, { s: '1\0bill\x005\0\0', u: 3 });
  await client.zadd(keyspace.due(SHARD), 1, `${key}-plain`);
  await bringUpToDate(redis, SHARD, `${key}-gone`);
  await bringUpToDate(redis, SHARD, `${key}-plain`);
  assert.is(await client.zcard(keyspace.due(SHARD)), 0);
  assert.is(await client.xlen(keyspace.outbox(SHARD)), 0);
  assert.is(await client.exists(`${key}-gone`), 0);
});
