import type { Redis } from 'ioredis';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  NEVER,
  PLAIN_CLASS,
  PLAIN_NUMBER,
  packAccountSettings,
  type CreditClass,
} from '../../shared/stores/account-settings.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { packRecord } from '../../shared/stores/records.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { makeOwnRedis } from '../helpers/own-redis.ts';
import { connectTestRedis } from '../helpers/world.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { setClock, SHARD } from './test-shard.ts';

// The scripts of the product on records with an account, at instants that the test sets.

const NOON = Date.UTC(2027, 0, 1, 12);

const { client } = (await connectTestRedis()).node(SHARD);

const plain = (begunMicros: number): CreditClass => classOf({ ref: PLAIN_CLASS, begunMicros });

function classOf(changed: Partial<CreditClass>): CreditClass {
  const nothing = { rollEndsAtMs: 0, rollMaxMicros: 0, firstVersion: 1, begunMicros: 0, pending: [] };
  return { ref: PLAIN_CLASS, number: PLAIN_NUMBER, priority: 50, endsAtMs: NEVER, ...nothing, ...changed };
}

function ending(endsAtMs: number, begunMicros: number): CreditClass {
  return classOf({ ref: `${'b'.padStart(17, '0')}:10:${endsAtMs}`, number: 2, priority: 10, endsAtMs, begunMicros });
}

/** A record of a plain past, with settings that have classes. */
async function begin(on: Redis, classes: CreditClass[], used = 0n) {
  const record = recordOfProduct(on, await loadScripts(on));
  await setClock(on, NOON);
  await record.startPlain(used);
  await record.declare(settings(record.billingId, 1, classes));
  return record;
}

function settings(billingId: string, version: number, classes: CreditClass[], allowOverages = false): string {
  const total = classes.find(({ ref }) => ref === PLAIN_CLASS)?.begunMicros ?? 0;
  const answerPart = `"totalCredits":"${formatCredits(total)}","allowOverages":${allowOverages}`;
  return packAccountSettings({ version, billingId, answerPart }, classes);
}

test('an account whose settings have no classes any more is a number again, with the same used credits', async () => {
  const record = await begin(client, [plain(5)], 2n);
  assert.is((await record.verify(1))[0]!.amounts, '3 0 5 0');
  const answerPart = '"totalCredits":"0.000005","allowOverages":false';
  await record.declare(packRecord('billing', { version: 2, billingId: record.billingId, limitMicros: 5, answerPart }));
  assert.is((await record.verify(1))[0]!.amounts, '4 0 5 0');
  assert.is((await record.verify(1))[0]!.amounts, '5');
  assert.is((await record.verify(1))[0]!.status, 'USAGE_LIMITED');
  await record.remove();
});

test('what falls due in more moments than one script does, is done by the next one, in the same batch too', async () => {
  const pending = Array.from({ length: 250 }, (_, i) => ({ beginsAtMs: NOON + 1 + i, micros: 1 }));
  const record = await begin(client, [classOf({ begunMicros: 5, pending })]);
  await record.verify(0);
  await setClock(client, NOON + 1_000);
  const answers = await record.verify(0, 0, 0);
  assert.equal(
    answers.map(({ status }) => status),
    ['AGAIN', 'AGAIN', 'VALID'],
  );
  assert.is(answers[2]!.amounts, '0 0 255 0');
  await record.remove();
});

const held = (name: string, micros: number, forMs = 60_000, onExpiry: 'release' | 'charge' = 'release') => {
  return { name, micros, forMs, onExpiry };
};

async function plainRecord(limitMicros: number) {
  const record = await begin(client, []);
  const answerPart = `"totalCredits":"${formatCredits(limitMicros)}","allowOverages":false`;
  await record.declare(packRecord('billing', { version: 1, billingId: record.billingId, limitMicros, answerPart }));
  return record;
}

test('more holds than one script ends at once end by the next ones, each with its line and none twice', async () => {
  const record = await plainRecord(1_000);
  for (let i = 0; i < 25; i++)
    await record.verify(...[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((j) => held(`${i}.${j}`, 1, 10)));
  await setClock(client, NOON + 10);
  const answers = await record.verify(0, 0, 0);
  assert.equal(
    answers.map(({ status }) => status),
    ['AGAIN', 'AGAIN', 'VALID'],
  );
  const released = record.lines.filter(({ kind }) => kind === 'release').map(({ hold }) => hold!.id);
  assert.is(new Set(released).size, 250);
  assert.is(released.length, 250);
  assert.is((await record.verify(0))[0]!.amounts, '0');
  await record.remove();
});

test('a hold can be captured until 24 h after its end, and how it was settled is remembered for 48 h', async () => {
  const record = await plainRecord(100);
  await record.verify(held('a', 10), held('b', 10), held('c', 10, 60_000, 'charge'));
  const day = 86_400_000;
  await setClock(client, NOON + 60_000 + day - 1);
  assert.is(await record.settleHold('capture', 'a', 5), 'DONE');
  await setClock(client, NOON + 60_000 + day);
  assert.is(await record.settleHold('capture', 'b', 5), 'UNKNOWN');
  assert.is(await record.settleHold('capture', 'c', 5), 'UNKNOWN');
  assert.is(await record.settleHold('release', 'b', 0), 'DONE');
  assert.is(await record.settleHold('capture', 'a', 5), 'DONE');
  assert.is((await record.verify(0))[0]!.amounts.split(' ')[0], '15');
  const lifetimes = await Promise.all((await client.keys('{07}:z:*')).map((name) => client.ttl(name)));
  assert.is(Math.max(...lifetimes) > 172_700 && Math.max(...lifetimes) <= 172_800, true);
  await record.remove();
});

test('a void that Redis hears of after the grant has ended parts it from its class, with what holds own of it', async () => {
  const record = await begin(client, [plain(50), ending(NOON + 10, 30)]);
  const sums = async () => [...record.sums].filter(([number]) => number > 1).map((one) => one.flat().join(' '));
  await record.verify(13);
  await record.verify(held('a', 12));
  await setClock(client, NOON + 10);
  await record.turn();
  // Three grants of 10: the first is used up, of the second 3 are used and 7 held, of the third 5 are held.
  assert.equal(await sums(), ['2 13 12 5']);
  await record.run(NOON + 11, ['void', 3, 2, 10, 10]);
  assert.equal(await sums(), ['2 10 5 5', '3 3 7 0']);
  await record.run(NOON + 12, ['void', 4, 2, 10, 10]);
  assert.equal(await sums(), ['2 10 0 0', '3 3 7 0', '4 0 5 5']);
  assert.is(await record.settleHold('capture', 'a', 8), 'DONE');
  assert.equal(await sums(), ['2 10 0 0', '3 10 0 0', '4 1 0 9']);
  assert.is((await record.verify(0))[0]!.amounts, '21 0 80 9');
  await record.remove();
});

test('a grant that began before Redis heard of its void is voided, and one that did not never counts', async () => {
  const pending = [{ beginsAtMs: NOON + 10, micros: 7 }];
  const record = await begin(client, [plain(50), { ...ending(NOON + 100, 20), pending }]);
  await record.verify(23);
  await record.declare(settings(record.billingId, 2, [plain(50), ending(NOON + 100, 20)]));
  await record.run(NOON + 5, ['void', 3, 2, -1, 7]);
  assert.is((await record.verify(0))[0]!.amounts, '23 0 70 0');
  await record.declare(settings(record.billingId, 3, [plain(50), { ...ending(NOON + 100, 20), pending }]));
  await setClock(client, NOON + 10);
  await record.verify(1);
  await record.declare(settings(record.billingId, 4, [plain(50), ending(NOON + 100, 20)]));
  await record.run(NOON + 15, ['void', 4, 2, -1, 7]);
  assert.is((await record.verify(0))[0]!.amounts, '24 0 77 6');
  assert.equal(record.sums.get(4), [1, 0, 6]);
  await record.remove();
});

test("a cancelled call's credits go back at its own time, also a day later, and its numbers have no gap", async () => {
  const midnight = Date.UTC(2027, 0, 2);
  for (const record of [await plainRecord(100), await begin(client, [plain(100)])]) {
    await setClock(client, midnight - 1);
    await record.verify({ micros: 7, once: 'a' });
    await setClock(client, midnight + 30_000);
    assert.equal([await record.cancel('a'), await record.cancel('a')], ['OK 7', 'OK 7']);
    assert.is((await record.verify({ micros: 7, once: 'a' }))[0]!.status, 'CANCELLED');
    const [taken, back, ...others] = record.lines.filter(({ cost }) => cost !== 0);
    assert.equal([taken!.kind, back!.kind, others.length], ['verification', 'correction', 0]);
    assert.equal([back!.cost, back!.used, back!.timeMs, taken!.timeMs], [-7, 0, midnight - 1, midnight - 1]);
    // Also of one that cost nothing: by its line the books know that limits on requests do not count it.
    await record.verify({ micros: 0, once: 'free' });
    assert.is(await record.cancel('free'), 'OK 0');
    const kinds = record.lines.map(({ kind }) => kind).filter((kind) => kind !== 'turn');
    assert.equal(kinds, ['verification', 'correction', 'verification', 'correction']);
    await record.remove();
  }
});

test('a call of an earlier epoch is not cancelled, nor told as never made while one may have been lost', async () => {
  const record = await plainRecord(100);
  await setClock(client, NOON);
  await record.verify({ micros: 7, once: 'a' });
  const meta = keyspace.meta(SHARD);
  const { epoch = '' } = await client.hgetall(meta);
  await client.hset(meta, { epoch: Number(epoch) + 1, openedAt: NOON - 59_999 });
  assert.equal([await record.cancel('a'), await record.cancel('b')], ['LOST ', 'LOST ']);
  assert.is((await record.fields()).u, '7');
  await client.hset(meta, { epoch, openedAt: NOON - 60_000 });
  assert.equal(
    [await record.cancel('c'), await record.cancel('b'), await record.cancel('a')],
    ['UNKNOWN ', 'LOST ', 'OK 7'],
  );
  await client.hdel(meta, 'openedAt');
  await record.remove();
});

test('at its memory limit Redis takes no debit, refuses what it would refuse, and turns an account all the same', async () => {
  const own = await makeOwnRedis('accounts-memory');
  try {
    const record = await begin(own.admin, [plain(5), ending(NOON + 10, 100)]);
    await record.verify(60);
    await setClock(own.admin, NOON + 10);
    await own.admin.config('SET', 'maxmemory', '1');
    assert.is((await record.verify(5))[0]!.status, 'OUTBOX_FULL');
    const [{ reason, amounts } = { reason: '', amounts: '' }] = await record.verify(6);
    assert.equal([reason, amounts], ['CREDITS_USED_UP', '60 0 105 40']);
    assert.is(record.lines.length, 2);
    assert.is(await record.turn(), 'OK');
    assert.equal(record.lines.at(-1)!.classes, [[2, 0, 0, 40]]);
  } finally {
    await own.remove();
  }
});
