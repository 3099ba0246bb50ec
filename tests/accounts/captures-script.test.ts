import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeEvent } from '../../shared/events/event.ts';
import {
  NEVER,
  PLAIN_CLASS,
  PLAIN_NUMBER,
  packAccountSettings,
  type CreditClass,
} from '../../shared/stores/account-settings.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { scriptText } from '../../shared/stores/scripts.ts';
import { readCaptureAnswers, type What } from '../../shared/verification/capture-protocol.ts';
import { scriptArguments } from '../../shared/verification/script-protocol.ts';
import { makeOwnRedis } from '../helpers/own-redis.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { byClock, RUN_ID, setClock, SHARD } from './test-shard.ts';

// Holds that one script settles, with and without the state of their account.

const NOON = Date.UTC(2027, 0, 1, 12);
const outbox = keyspace.outbox(SHARD);

const own = await makeOwnRedis('captures');
test.before.each(async () => void (await own.admin.flushall()));
test.after(() => own.remove());

function classOf(changed: Partial<CreditClass>): CreditClass {
  const nothing = { rollEndsAtMs: 0, rollMaxMicros: 0, firstVersion: 1, begunMicros: 0, pending: [] };
  return { ref: PLAIN_CLASS, number: PLAIN_NUMBER, priority: 50, endsAtMs: NEVER, ...nothing, ...changed };
}

async function begin() {
  const record = recordOfProduct(own.admin, await loadScripts(own.admin));
  await setClock(own.admin, NOON);
  await record.startPlain(0n);
  await record.declare(settingsOf(record.billingId, 1));
  return record;
}
type Begun = Awaited<ReturnType<typeof begin>>;

function settingsOf(billingId: string, version: number): string {
  const answerPart = '"totalCredits":"1","allowOverages":false';
  const endsAtMs = NOON + 5_000;
  const soon = classOf({ ref: `c:10:${endsAtMs}`, number: 2, priority: 10, endsAtMs, begunMicros: 300 });
  const classes = [classOf({ begunMicros: 1_000_000 }), soon];
  return packAccountSettings({ version, billingId, answerPart }, classes);
}

/** Asks one script for captures of these holds, each with a usage of 7. */
async function capture(asked: { record: Begun; name: string }[]) {
  const packed = asked.map(({ record, name }) => record.packSettling('capture', name, 7));
  const args = scriptArguments({ runId: RUN_ID, notAfterMs: 9e15, outboxFull: false }, packed);
  const keys = asked.map(({ record }) => record.name);
  const answer = (await own.admin.eval(byClock(scriptText('capture')), keys.length, ...keys, ...args)) as string[];
  return readCaptureAnswers(answer, asked.length);
}

test('a hold that two calls of a script capture is captured once, and an extension among captures goes on', async () => {
  const record = await begin();
  const hold = { micros: 10, forMs: 60_000, onExpiry: 'release' as const };
  await record.verify({ ...hold, name: 'a' }, { ...hold, name: 'b' }, { ...hold, name: 'c' });
  const told = record.lines.length;
  const asked = [
    ['capture', 'a', 7],
    ['extend', 'b', 90_000],
    ['capture', 'a', 7],
    ['capture', 'a', 8],
    ['release', 'c', 0],
  ] as const;
  const answers = await record.settleHolds(...asked.map((one) => [...one] as [What, string, number]));
  assert.equal(
    answers.map(({ status, detail }) => [status, detail].join(' ').trim()),
    ['OK', 'OK', 'OK', 'CONFLICT captured', 'OK'],
  );
  assert.equal(
    record.lines.slice(told).map(({ kind, cost, used, held }) => ({ kind, cost, used, held })),
    [
      { kind: 'capture', cost: 7, used: 7, held: 20 },
      { kind: 'extension', cost: 0, used: 7, held: 20 },
      { kind: 'release', cost: 0, used: 7, held: 10 },
    ],
  );
  await clear([record]);
});

test('a damaged hold or record spoils no other one of the script, which is debited as its line says', async () => {
  const [good, damaged, other] = [await begin(), await begin(), await begin()];
  const hold = { micros: 10, forMs: 60_000, onExpiry: 'release' as const };
  for (const record of [good, damaged, other]) await record.verify({ ...hold, name: 'a' }, { ...hold, name: 'b' });
  const open = `{07}:o:${good.name.slice('{07}:b:'.length)}`;
  const id = good.holdOf('a')!.id;
  await own.admin.hset(open, id, (await own.admin.hget(open, id))!.replace(/^\d+/, 'ten'));
  const counters = (await own.admin.hget(damaged.name, 'u'))!;
  await own.admin.hset(damaged.name, 'u', counters.replace(/^(@\0\d+\0)\d+/, '$1many'));
  await own.admin.del(outbox);
  const asked = [good, damaged, other].flatMap((record) => ['a', 'b'].map((name) => ({ record, name })));
  const answers = await capture(asked);
  assert.equal(
    answers.map(({ status }) => status),
    ['UNSETTLED', 'OK', 'UNSETTLED', 'UNSETTLED', 'OK', 'OK'],
  );
  const entries = (await own.admin.xrange(outbox, '-', '+')) as [string, [string, string]][];
  const lines = entries.flatMap(([, [, told]]) => told.split('\n').map(decodeEvent));
  assert.equal(
    lines.map(({ billingId, usedMicros, heldMicros }) => [billingId, usedMicros, heldMicros]),
    [
      [good.billingId, 7, 10],
      [other.billingId, 7, 10],
      [other.billingId, 14, 0],
    ],
  );
  const amountsIn = async ({ name }: Begun) => (await own.admin.hget(name, 'u'))!.split('\0').slice(1, 3);
  assert.equal(
    [await amountsIn(good), await amountsIn(other)],
    [
      ['7', '10'],
      ['14', '0'],
    ],
  );
  assert.equal(await own.admin.hkeys(open), [id]);
  await own.admin.flushall();
  for (const record of [good, damaged, other]) await record.remove();
});

type Asked = { what: What; record: number; hold: number; part: number; knows: boolean };
const aHold = fc.record({
  micros: fc.integer({ min: 0, max: 400 }),
  forMs: fc.constantFrom(1_000, 4_000, 60_000),
  onExpiry: fc.constantFrom('release' as const, 'charge' as const),
});
const scene = fc.record({
  holds: fc.array(fc.array(aHold, { minLength: 1, maxLength: 5 }), { minLength: 2, maxLength: 2 }),
  waitMs: fc.constantFrom(0, 0, 0, 1_000, 5_000, 5_001),
  earlier: fc.boolean(),
  asked: fc.uniqueArray(
    fc.record({
      what: fc.constantFrom('capture' as const, 'capture' as const, 'release' as const, 'extend' as const),
      record: fc.nat(1),
      hold: fc.nat(4),
      part: fc.constantFrom(0, 0.5, 1, 2),
      knows: fc.boolean(),
    }),
    { selector: ({ record, hold }) => `${record} ${hold}`, minLength: 1, maxLength: 8 },
  ),
});

test('a hold that is settled without the state of its account leaves what it leaves with it: amounts, holds, and lines', async () => {
  const text = byClock(scriptText('capture'));
  const decision = '(not isKnown or needsState(account, asked))';
  assert.ok(text.includes(decision));
  const aloneText = text.replace(decision, 'true');
  let together = 0;
  const compared = fc.asyncProperty(scene, async ({ holds, waitMs, earlier, asked }) => {
    const records = [await begin(), await begin()];
    const kept: Kept[] = [];
    for (const [i, record] of records.entries()) {
      if (earlier) await record.verify(1);
      await record.verify(...holds[i]!.map((hold, name) => ({ ...hold, name: String(name) })));
      await record.verify({ name: 'first', micros: 1, forMs: 60_000, onExpiry: 'release' });
      const [{ known, settings }] = await record.settleHolds(['release', 'first', 0]);
      assert.is.not(known, '');
      kept.push({ known, settings });
    }
    await setClock(own.admin, NOON + waitMs);
    const known = asked.filter((one) => one.hold < holds[one.record]!.length);
    if (known.length > 0) {
      const before = await snapshot();
      const one = await settle({ records, holds, kept }, known, text);
      await restore(before);
      const other = await settle({ records, holds, kept }, known, aloneText);
      assert.equal(one, other);
      together += waitMs === 0 ? 1 : 0;
    }
    await clear(records);
  });
  await fc.assert(compared, { numRuns: 60, seed: 1 });
  assert.ok(together > 10);
});

type Kept = { known: string; settings: string };
type Scene = { records: Begun[]; holds: { micros: number }[][]; kept: Kept[] };

async function settle({ records, holds, kept }: Scene, asked: Asked[], text: string) {
  const packed = asked.map(({ what, record, hold, part, knows }) => {
    const amount = what === 'capture' ? Math.floor(holds[record]![hold]!.micros * part) : 90_000;
    const known = knows ? kept[record]!.known : '';
    return records[record]!.packSettling(what, String(hold), what === 'release' ? 0 : amount, { known });
  });
  const keys = asked.map(({ record }) => records[record]!.name);
  const args = scriptArguments({ runId: RUN_ID, notAfterMs: 9e15, outboxFull: false }, packed);
  const answer = (await own.admin.eval(text, keys.length, ...keys, ...args)) as string[];
  const answers = readCaptureAnswers(answer, asked.length).map(({ status, detail, endsAtMs, settings }, i) => {
    const one = asked[i]!;
    // Known ones are answered by settling it alone only.
    return { status, detail, endsAtMs, settings: status === 'OK' && one.knows ? kept[one.record]!.settings : settings };
  });
  const entries = (await own.admin.xrange(outbox, '-', '+')) as [string, [string, string]][];
  const lines = entries.flatMap(([, [, lines]]) => lines.split('\n'));
  const told = lines.map(withoutOrder).toSorted();
  return { answers, told, state: await stateOf(records) };
}

/** What a line tells, but for its id and what follows the order in which calls were decided. */
function withoutOrder(line: string): string {
  const { id: _id, usedMicros: _used, sequence: _sequence, heldMicros: _held, ...told } = decodeEvent(line);
  return JSON.stringify(told);
}

/** All that Redis has of the records but their numbers and turns' lines, which follow the order in which calls were decided. */
async function stateOf(records: Begun[]) {
  const { admin } = own;
  const state: unknown[] = [];
  for (const { name } of records) {
    const place = name.slice('{07}:b:'.length);
    const [u] = await admin.hmget(name, 'u');
    state.push([
      u,
      await admin.hgetall(`{07}:o:${place}`),
      await admin.zrange(`{07}:e:${place}`, '0', '-1', 'WITHSCORES'),
      await admin.zscore(keyspace.due(SHARD), name),
    ]);
  }
  const settled = (await admin.keys('{07}:z:*')).toSorted();
  return [...state, settled, settled.length > 0 ? await admin.mget(settled) : []];
}

async function snapshot() {
  const names = await own.admin.keys('*');
  return Promise.all(names.map(async (name) => [name, await own.admin.dumpBuffer(name)] as const));
}

async function restore(kept: (readonly [string, Buffer])[]): Promise<void> {
  await own.admin.flushall();
  for (const [name, bytes] of kept) await own.admin.restore(name, 0, bytes);
}

async function clear(records: Begun[]): Promise<void> {
  for (const record of records) await record.remove();
  await own.admin.flushall();
}
