import * as fc from 'fast-check';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { carryLine } from '../../shared/events/carried-event.ts';
import { tracePart } from '../../shared/events/carried-trace.ts';
import { NEVER, PLAIN_CLASS, packAccountSettings, type CreditClass } from '../../shared/stores/account-settings.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { scriptText } from '../../shared/stores/scripts.ts';
import { readCaptureAnswers } from '../../shared/verification/capture-protocol.ts';
import { scriptArguments } from '../../shared/verification/script-protocol.ts';
import { makeOwnRedis, type OwnRedis } from '../helpers/own-redis.ts';
import { readLine } from './lines.ts';
import { loadScripts, recordOfProduct } from './product-scripts.ts';
import { byClock, RUN_ID, setClock, SHARD } from './test-shard.ts';

// Holds that one script settles: what can be settled together leaves what settling each alone would leave.

const NOON = Date.UTC(2027, 0, 1, 12);
const outbox = keyspace.outbox(SHARD);

const test = suite('captures of one script');
let own: OwnRedis;
test.before(async () => {
  own = await makeOwnRedis('captures');
});
test.before.each(async () => void (await own.admin.flushall()));
test.after(() => own?.remove());

function classOf(changed: Partial<CreditClass>): CreditClass {
  const nothing = { rollEndsAtMs: 0, rollMaxMicros: 0, firstVersion: 1, begunMicros: 0, pending: [] };
  return { ref: PLAIN_CLASS, priority: 50, endsAtMs: NEVER, ...nothing, ...changed };
}

async function begin() {
  const record = recordOfProduct(own.admin, await loadScripts(own.admin));
  await setClock(own.admin, NOON);
  await record.startPlain(0n);
  const answerPart = '"totalCredits":"1","allowOverages":false';
  const endsAtMs = NOON + 5_000;
  const soon = classOf({ ref: `c:10:${endsAtMs}`, priority: 10, endsAtMs, begunMicros: 300 });
  const classes = [classOf({ begunMicros: 1_000_000 }), soon];
  await record.declare(packAccountSettings({ version: 1, billingId: record.billingId, answerPart }, classes));
  return record;
}
type Begun = Awaited<ReturnType<typeof begin>>;

async function calls(command: string): Promise<number> {
  const stats = await own.admin.info('commandstats');
  return Number(new RegExp(`^cmdstat_${command}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0);
}

test('sixteen captures on two records read and write each once, and append one entry', async () => {
  const records = [await begin(), await begin()];
  const keys: string[] = [];
  const packed: string[] = [];
  for (const [i, record] of records.entries()) {
    const names = Array.from({ length: 8 }, (_, hold) => `${i}.${hold}`);
    await record.verify(...names.map((name) => ({ name, micros: 10, forMs: 60_000, onExpiry: 'release' as const })));
    for (const name of names) {
      keys.push(record.name);
      packed.push(record.packSettling('capture', name, 7));
    }
  }
  await own.admin.del(keyspace.more(SHARD));
  await own.admin.config('RESETSTAT');
  const args = scriptArguments({ runId: RUN_ID, notAfterMs: 9e15, outboxFull: false }, packed);
  const text = byClock(scriptText('capture'));
  const answer = (await own.admin.eval(text, keys.length, ...keys, ...args)) as string[];
  const amounts = readCaptureAnswers(answer, 16).map((one) => `${one.status} ${one.amounts}`);
  assert.is(amounts[7], 'OK 56 0 1000300 0');
  assert.is(amounts[8], 'OK 7 70 1000300 0');
  assert.is(await calls('xadd'), 1);
  assert.is(await calls('hset'), records.length);
  assert.is(await calls('zrem'), records.length);
  // The clock, the fence, and each record.
  assert.is(await calls('hmget'), 2 + records.length);
  // The default alerts of the workspace, and each hold.
  assert.is(await calls('hget'), 1 + keys.length);
  assert.is(await own.admin.get(keyspace.more(SHARD)), '15');
  await clear(records);
});

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
  const answers = await record.settleHolds(...asked.map((one) => [...one] as [string, string, number]));
  assert.equal(
    answers.map(({ status, detail }) => [status, detail].join(' ').trim()),
    ['OK', 'OK', 'OK', 'CONFLICT captured', 'OK'],
  );
  assert.equal(
    record.lines.slice(told).map(({ kind, cost, used, held }) => ({ kind, cost, used, held })),
    [
      { kind: 'capture', cost: 7, used: 7, held: 20 },
      { kind: 'release', cost: 0, used: 7, held: 10 },
      { kind: 'extension', cost: 0, used: 7, held: 10 },
    ],
  );
  await clear([record]);
});

test('a line has the trace of the call that made it, decided together or alone, and no other line has one', async () => {
  const record = await begin();
  const hold = { micros: 10, forMs: 60_000, onExpiry: 'release' as const };
  await record.verify(...['a', 'b', 'c', 'd'].map((name) => ({ ...hold, name })));
  await record.verify({ ...hold, name: 'short', forMs: 1_000, onExpiry: 'charge' });
  const traceOf = (i: number) => `00-0af7651916cd43dd8448eb211c80319c-000000000000000${i}-01`;
  const tell = async (...asked: [what: string, name: string, amount: number][]) => {
    const packed = asked.map((one, i) => record.packSettling(...one, tracePart(traceOf(i))));
    const args = scriptArguments({ runId: RUN_ID, notAfterMs: 9e15, outboxFull: false }, packed);
    const keys = asked.map(() => record.name);
    await own.admin.eval(byClock(scriptText('capture')), keys.length, ...keys, ...args);
    const entries = (await own.admin.xrange(outbox, '-', '+')) as [string, [string, string]][];
    await own.admin.del(outbox);
    return entries.flatMap(([, [, lines]]) => lines.split('\n').map(carryLine)).map(({ kind, trace }) => [kind, trace]);
  };
  assert.equal(await tell(['capture', 'a', 7], ['release', 'b', 0], ['extend', 'c', 90_000]), [
    ['capture', traceOf(0)],
    ['release', traceOf(1)],
    ['extension', traceOf(2)],
  ]);
  // The end of the short one comes first: no call made the line that charges it.
  await setClock(own.admin, NOON + 2_000);
  assert.equal(await tell(['capture', 'd', 3], ['capture', 'short', 4]), [
    ['capture', undefined],
    ['capture', traceOf(0)],
    ['turn', undefined],
    ['correction', traceOf(1)],
    ['turn', undefined],
  ]);
  await clear([record]);
});

type Asked = { what: 'capture' | 'release' | 'extend'; record: number; hold: number; part: number };
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
    }),
    { selector: ({ record, hold }) => `${record} ${hold}`, minLength: 1, maxLength: 8 },
  ),
});

test('captures of one script leave what they leave alone: amounts, open holds, settled ones, and lines', async () => {
  const text = byClock(scriptText('capture'));
  const decision = 'return settleOpen(record, packedCapture), record.billingRecord';
  assert.ok(text.includes(decision));
  const aloneText = text.replace(decision, 'return nil');
  let together = 0;
  const compared = fc.asyncProperty(scene, async ({ holds, waitMs, earlier, asked }) => {
    const records = [await begin(), await begin()];
    for (const [i, record] of records.entries()) {
      if (earlier) await record.verify(1);
      await record.verify(...holds[i]!.map((hold, name) => ({ ...hold, name: String(name) })));
    }
    await setClock(own.admin, NOON + waitMs);
    const known = asked.filter((one) => one.hold < holds[one.record]!.length);
    if (known.length > 0) {
      const before = await snapshot();
      const one = await settle(records, holds, known, text);
      await restore(before);
      const other = await settle(records, holds, known, aloneText);
      assert.equal(one, other);
      together += waitMs === 0 ? 1 : 0;
    }
    await clear(records);
  });
  await fc.assert(compared, { numRuns: 150 });
  assert.ok(together > 20);
});

async function settle(records: Begun[], holds: { micros: number }[][], asked: Asked[], text: string) {
  const packed = asked.map(({ what, record, hold, part }) => {
    const amount = what === 'capture' ? Math.floor(holds[record]![hold]!.micros * part) : 90_000;
    return records[record]!.packSettling(what, String(hold), what === 'release' ? 0 : amount);
  });
  const keys = asked.map(({ record }) => records[record]!.name);
  const args = scriptArguments({ runId: RUN_ID, notAfterMs: 9e15, outboxFull: false }, packed);
  const answer = (await own.admin.eval(text, keys.length, ...keys, ...args)) as string[];
  const answers = readCaptureAnswers(answer, asked.length).map(({ status, detail, endsAtMs, settings }) => {
    return { status, detail, endsAtMs, settings };
  });
  const entries = (await own.admin.xrange(outbox, '-', '+')) as [string, [string, string]][];
  const lines = entries.flatMap(([, [, lines]]) => lines.split('\n').map(readLine));
  const told = lines.map(({ kind, cost, hold }) => `${kind} ${cost} ${hold?.id} ${hold?.change}`).toSorted();
  return { answers, told, state: await stateOf(records) };
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

test.run();
