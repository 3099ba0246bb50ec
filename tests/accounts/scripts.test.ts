import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { readHotAccount } from '../../shared/books/account-state.ts';
import type { PackedAlert } from '../../shared/stores/account-settings.ts';
import { callScript } from '../../shared/stores/scripts.ts';
import { readCaptureAnswers } from '../../shared/verification/capture-protocol.ts';
import { scriptArguments } from '../../shared/verification/script-protocol.ts';
import { readEvents } from '../helpers/outbox.ts';
import { column, columns, connectTestRedis } from '../helpers/world.ts';
import { beginPlain, beginRecord, classOf, endingClass, NOON, plainSettings, settingsOf } from './begin.ts';
import { shown } from './compare-limits.ts';
import { crossedBy, declareDefaultAlerts } from './product-scripts.ts';
import { RUN_ID, setClock, SHARD } from './test-shard.ts';

// The scripts of the product on records with an account, at instants that the test sets: what the model of accounts does not know.

const { client } = (await connectTestRedis()).node(SHARD);

test.before.each(async () => void (await client.flushdb()));

const plain = (begunMicros: number) => classOf({ begunMicros });

test('an account whose settings have no classes any more is a number again, with the same used credits', async () => {
  const record = await beginRecord(client, [plain(5)], { used: 2n });
  assert.is((await record.verify(1))[0]!.amounts, '3 0 5 0');
  await record.declare(plainSettings(record.billingId, 5, 2));
  assert.is((await record.verify(1))[0]!.amounts, '4 0 5 0');
  assert.is((await record.verify(1))[0]!.amounts, '5');
  assert.is((await record.verify(1))[0]!.status, 'USAGE_LIMITED');
});

test('what falls due in more moments than one script does, is done by the next one, in the same batch too', async () => {
  const pending = Array.from({ length: 250 }, (_, i) => ({ beginsAtMs: NOON + 1 + i, micros: 1 }));
  const record = await beginRecord(client, [classOf({ begunMicros: 5, pending })]);
  await record.verify(0);
  await setClock(client, NOON + 1_000);
  const answers = await record.verify(0, 0, 0);
  assert.equal(column(answers, 'status'), ['AGAIN', 'AGAIN', 'VALID']);
  assert.is(answers[2]!.amounts, '0 0 255 0');
});

const held = (name: string, micros: number, forMs = 60_000, onExpiry: 'release' | 'charge' = 'release') => {
  return { name, micros, forMs, onExpiry };
};

test('more holds than one script ends at once end by the next ones, each with its line and none twice', async () => {
  const record = await beginPlain(client, 1_000);
  for (let i = 0; i < 25; i++)
    await record.verify(...[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((j) => held(`${i}.${j}`, 1, 10)));
  await setClock(client, NOON + 10);
  const answers = await record.verify(0, 0, 0);
  assert.equal(column(answers, 'status'), ['AGAIN', 'AGAIN', 'VALID']);
  const released = record.lines.filter(({ kind }) => kind === 'release').map(({ holdId }) => holdId);
  assert.is(new Set(released).size, 250);
  assert.is(released.length, 250);
  assert.is((await record.verify(0))[0]!.amounts, '0');
});

test('how a hold was settled is remembered for 48 h', async () => {
  const record = await beginPlain(client, 100);
  await record.verify(held('a', 10));
  await record.settleHold('capture', 'a', 5);
  const [remembered = 0, ...others] = await Promise.all(
    (await client.keys('{07}:z:*')).map((name) => client.ttl(name)),
  );
  assert.ok(remembered > 172_700 && remembered <= 172_800 && others.length === 0, `${remembered} s`);
});

test('a hold that two calls of a script capture is captured once, and an extension among captures goes on', async () => {
  const record = await beginRecord(client, [plain(1_000)]);
  await record.verify(held('a', 10), held('b', 10), held('c', 10));
  const told = record.lines.length;
  const answers = await record.settleHolds(
    ['capture', 'a', 7],
    ['extend', 'b', 90_000],
    ['capture', 'a', 7],
    ['capture', 'a', 8],
    ['release', 'c', 0],
  );
  const found = answers.map(({ status, detail }) => [status, detail].join(' ').trim());
  assert.equal(found, ['OK', 'OK', 'OK', 'CONFLICT captured', 'OK']);
  assert.equal(columns(record.lines.slice(told), 'kind', 'costMicros', 'usedMicros', 'heldMicros'), [
    ['capture', 7, 7, 20],
    ['extension', 0, 7, 20],
    ['release', 0, 7, 10],
  ]);
});

test('a caller that knows the settings settles a hold alone, unless what becomes of it goes by the state of its account', async () => {
  const classes = [plain(1_000), endingClass(NOON + 20, 300)];
  const record = await beginRecord(client, classes, { alerts: [percent(50, 'half')] });
  const holds = [held('first', 10), held('ended', 100, 10), held('a', 100), held('b', 100), held('short', 50)];
  await record.verify(...holds, held('big', 500));
  record.lines.length = 0;
  await record.settleHold('release', 'first', 0);
  await record.settleHold('extend', 'short', 5);
  await record.settleHold('capture', 'a', 100);
  await setClock(client, NOON + 5);
  await record.bringUpToDate();
  await setClock(client, NOON + 10);
  assert.is((await record.settleHolds(['capture', 'ended', 40]))[0].detail, '1', 'it is late');
  await record.settleHold('capture', 'big', 510);
  await setClock(client, NOON + 20);
  await record.bringUpToDate();
  await record.settleHold('capture', 'b', 50);
  const settled = 'release, extension, capture, release, release, capture, capture half, moment, capture';
  assert.is(told(record).join(', '), settled);
  assert.is((await record.verify(0))[0]!.amounts, '700 0 1300 100');
});

test('calls that are alike are decided together as they would be one by one, and make the same lines', async () => {
  const anyOf = <T>(...values: T[]) => fc.constantFrom(...values);
  const limit = fc.record({
    unit: anyOf('requests' as const, 'credits' as const),
    amount: fc.integer({ min: 1, max: 9 }),
    per: anyOf('minute', 'day'),
    shadow: fc.boolean(),
  });
  const limitsOf = fc.array(limit, { maxLength: 2 }).map((limits) =>
    limits.map(({ amount, unit, ...rest }, i) => {
      return { name: `limit ${i}`, unit, limit: unit === 'requests' ? amount : `0.00000${amount}`, ...rest };
    }),
  );
  const half: PackedAlert[] = [{ name: 'half', kind: 'usedPercent', value: 50 }];
  const alerts = anyOf(undefined, half);
  const classes = anyOf([], [plain(9)], [endingClass(NOON + 60_000, 4), plain(5)]);
  const calls = fc.array(fc.record({ micros: fc.nat(3), times: fc.integer({ min: 1, max: 6 }) }), { maxLength: 4 });
  const settings = { ofKey: limitsOf, ofRecord: limitsOf, withLimits: fc.boolean(), alerts, classes, calls };
  const property = fc.asyncProperty(fc.record(settings), async (chosen) => {
    const asked = chosen.calls.flatMap(({ micros, times }) => Array<number>(times).fill(micros));
    const answers = [];
    for (const together of [true, false]) {
      const record = await beginRecord(client, chosen.classes, { alerts: chosen.alerts });
      if (chosen.classes.length === 0) await record.declare(plainSettings(record.billingId, 9, 2));
      if (chosen.withLimits) await record.setLimits(chosen.ofKey, chosen.ofRecord, chosen.alerts);
      // One with a name of its own is alike to no other.
      const named = asked.map((micros, i) => ({ micros, once: together ? '' : `${i}` }));
      const answered = (await record.verify(...named)).map((one) => [one.reason, one.amounts, shown(one)]);
      const lines = record.lines.map(({ kind, costMicros, usedMicros, sequence, classes, crossed }) => {
        return { kind, costMicros, usedMicros, sequence, classes, crossed };
      });
      const counters = await Promise.all(record.counters.map((name) => client.getBuffer(name)));
      const counted = counters.map((text) => text?.toString('latin1').slice(text.indexOf(0)));
      const { u, t, n3 } = await record.fields();
      answers.push({ answered, lines, counted, u, t, n3 });
    }
    assert.equal(answers[0], answers[1]);
  });
  await fc.assert(property, { numRuns: 60 });
});

test('a damaged hold or record spoils no other one of the script, which is debited as its line says', async () => {
  const begin = () => beginRecord(client, [plain(1_000)]);
  const [good, damaged, other] = [await begin(), await begin(), await begin()];
  for (const record of [good, damaged, other]) await record.verify(held('a', 10), held('b', 10));
  const open = good.name.replace(':b:', ':o:');
  const { id } = good.holdOf('a')!;
  await client.hset(open, id, (await client.hget(open, id))!.replace(/^\d+/, 'ten'));
  const account = (await client.hgetBuffer(damaged.name, 'u'))!;
  await client.hset(damaged.name, 'u', account.subarray(0, -1));
  const asked = [good, damaged, other].flatMap((record) => ['a', 'b'].map((name) => ({ record, name })));
  const packed = asked.map(({ record, name }) => record.packSettling('capture', name, 7));
  const args = scriptArguments({ runId: RUN_ID, notAfterMs: 9e15, outboxFull: false }, packed);
  const keys = asked.map(({ record }) => record.name);
  const answer = await callScript(client, 'capture', keys, args);
  const statuses = column(readCaptureAnswers(answer, asked.length), 'status').join(' ');
  assert.is(statuses, 'UNSETTLED OK UNSETTLED UNSETTLED OK OK');
  const entries = await client.xrange(keyspace.outbox(SHARD), '-', '+');
  const lines = entries.flatMap(([, fields]) => readEvents(fields));
  assert.equal(columns(lines, 'billingId', 'usedMicros', 'heldMicros'), [
    [good.billingId, 7, 10],
    [other.billingId, 7, 10],
    [other.billingId, 14, 0],
  ]);
  const amountsIn = async ({ name }: typeof good) => {
    const { usedMicros, heldMicros } = readHotAccount((await client.hgetBuffer(name, 'u'))!)!;
    return `${usedMicros} ${heldMicros}`;
  };
  assert.equal([await amountsIn(good), await amountsIn(other)], ['7 10', '14 0']);
  assert.equal(await client.hkeys(open), [id]);
});

test('a void that Redis hears of after the grant has ended parts it from its class, with what holds own of it', async () => {
  const record = await beginRecord(client, [plain(50), endingClass(NOON + 10, 30)]);
  const sums = async () => [...record.sums].filter(([number]) => number > 1).map((one) => one.flat().join(' '));
  await record.verify(13);
  await record.verify(held('a', 12));
  await setClock(client, NOON + 10);
  await record.bringUpToDate();
  // Three grants of 10: the first is used up, of the second 3 are used and 7 held, of the third 5 are held.
  assert.equal(await sums(), ['2 13 12 5']);
  await record.at(NOON + 11, () => record.voidGrant(3, 2, 10, 10));
  assert.equal(await sums(), ['2 10 5 5', '3 3 7 0']);
  await record.at(NOON + 12, () => record.voidGrant(4, 2, 10, 10));
  assert.equal(await sums(), ['2 10 0 0', '3 3 7 0', '4 0 5 5']);
  assert.is(await record.settleHold('capture', 'a', 8), 'DONE');
  assert.equal(await sums(), ['2 10 0 0', '3 10 0 0', '4 1 0 9']);
  assert.is((await record.verify(0))[0]!.amounts, '21 0 80 9');
});

test('what ended before the last line of the books has expired once, whether they lack the line that said so or have it twice', async () => {
  for (const expired of [0, 2 * 17]) {
    await setClock(client, NOON);
    const record = await beginRecord(client, [plain(50), endingClass(NOON + 10, 30)]);
    await record.verify(13);
    await setClock(client, NOON + 10);
    await record.verify(1);
    assert.equal(record.sums.get(2), [13, 0, 17]);
    record.sums.set(2, [13, 0, expired]);
    await record.rebuild();
    assert.is((await record.verify(0))[0]!.amounts, '14 0 80 17');
    assert.equal(record.sums.get(2), [13, 0, 17]);
  }
});

test('a grant that began before Redis heard of its void is voided, and one that did not never counts', async () => {
  const pending = [{ beginsAtMs: NOON + 10, micros: 7 }];
  const record = await beginRecord(client, [plain(50), { ...endingClass(NOON + 100, 20), pending }]);
  await record.verify(23);
  await record.declare(settingsOf(record.billingId, [plain(50), endingClass(NOON + 100, 20)], { version: 2 }));
  await record.at(NOON + 5, () => record.voidGrant(3, 2, -1, 7));
  assert.is((await record.verify(0))[0]!.amounts, '23 0 70 0');
  await record.declare(
    settingsOf(record.billingId, [plain(50), { ...endingClass(NOON + 100, 20), pending }], { version: 3 }),
  );
  await setClock(client, NOON + 10);
  await record.verify(1);
  await record.declare(settingsOf(record.billingId, [plain(50), endingClass(NOON + 100, 20)], { version: 4 }));
  await record.at(NOON + 15, () => record.voidGrant(4, 2, -1, 7));
  assert.is((await record.verify(0))[0]!.amounts, '24 0 77 6');
  assert.equal(record.sums.get(4), [1, 0, 6]);
});

test("a cancelled call's credits go back at its own time, also a day later, and its numbers have no gap", async () => {
  const midnight = Date.UTC(2027, 0, 2);
  for (const record of [await beginPlain(client, 100), await beginRecord(client, [plain(100)])]) {
    await setClock(client, midnight - 1);
    await record.verify({ micros: 7, once: 'a' });
    await setClock(client, midnight + 30_000);
    assert.equal([await record.cancel('a'), await record.cancel('a')], ['OK 7', 'OK 7']);
    assert.is((await record.verify({ micros: 7, once: 'a' }))[0]!.status, 'CANCELLED');
    const [taken, back, ...others] = record.lines.filter(({ costMicros }) => costMicros !== 0);
    assert.equal([taken!.kind, back!.kind, others.length], ['verification', 'correction', 0]);
    const { costMicros, usedMicros, timeMs } = back!;
    assert.equal([costMicros, usedMicros, timeMs, taken!.timeMs], [-7, 0, midnight - 1, midnight - 1]);
    // Also of one that cost nothing: by its line the books know that limits on requests do not count it.
    await record.verify({ micros: 0, once: 'free' });
    assert.is(await record.cancel('free'), 'OK 0');
    const kinds = record.lines.map(({ kind }) => kind).filter((kind) => kind !== 'moment');
    assert.equal(kinds, ['verification', 'correction', 'verification', 'correction']);
  }
});

test('a call of an earlier epoch is not cancelled, nor told as never made while one may have been lost', async () => {
  const record = await beginPlain(client, 100);
  await setClock(client, NOON);
  await record.verify({ micros: 7, once: 'a' });
  const meta = keyspace.meta(SHARD);
  const { epoch = '' } = await client.hgetall(meta);
  await client.hset(meta, { epoch: Number(epoch) + 1, openedAt: NOON - 59_999 });
  assert.equal([await record.cancel('a'), await record.cancel('b')], ['LOST ', 'LOST ']);
  assert.is((await record.fields()).u, '7');
  await client.hset(meta, { epoch, openedAt: NOON - 60_000 });
  const later = [await record.cancel('c'), await record.cancel('b'), await record.cancel('a')];
  assert.equal(later, ['UNKNOWN ', 'LOST ', 'OK 7']);
  await client.hdel(meta, 'openedAt');
});

test('a plain record has the default alerts of its workspace from its next call on, and none after they are gone', async () => {
  const record = await beginPlain(client, 100);
  assert.is((await record.verify(50))[0]!.amounts, '50');
  await declareDefaultAlerts(client, [percent(40, 'a'), percent(80, 'b')]);
  await record.verify(29);
  await record.adjust(1);
  assert.equal(told(record), ['verification', 'verification', 'adjustment b']);
  await declareDefaultAlerts(client, []);
  await record.verify(1);
  assert.is((await record.verify(1))[0]!.amounts, '82');
  assert.is((await record.fields()).u, '82');
});

test('an alert that is armed again by the script that crosses it, before any line, has another name', async () => {
  const begins = { ref: 'later', number: 3, priority: 20, pending: [{ beginsAtMs: NOON + 30, micros: 1 }] };
  const classes = [plain(0), endingClass(NOON + 20, 1), classOf(begins)];
  const record = await beginRecord(client, classes);
  await record.bringUpToDate();
  await record.declare(settingsOf(record.billingId, classes, { version: 2, alerts: [percent(1, 'low')] }));
  await record.bringUpToDate();
  await setClock(client, NOON + 30);
  await record.verify(1);
  const armed = record.lines.flatMap(crossedBy).map((crossed) => crossed.armed);
  assert.equal([armed.length, new Set(armed).size], [2, 2]);
});

function percent(value: number, name: string) {
  return { name, kind: 'usedPercent' as const, value };
}

function told({ lines }: Pick<Awaited<ReturnType<typeof beginRecord>>, 'lines'>): string[] {
  return lines.map((line) => [line.kind, ...crossedBy(line).map(({ name }) => name)].join(' '));
}
