// Reconciling: a record is exact, or differs by an amount and between two events; and it never differs only because events
// are on their way.
import { encode } from '@msgpack/msgpack';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey, type BillingRef } from '../../../shared/books/billing-refs.ts';
import { reconcile, type Reconciliation } from '../../../shared/books/reconciling/reconcile.ts';
import { readBooked } from '../../../shared/books/sums/booked.ts';
import { storeWatermark } from '../../../shared/events/watermark.ts';
import { rebuildNoted } from '../../../shared/books/rebuilding/rebuilder.ts';
import { noteUnsettled } from '../../../shared/books/rebuilding/unsettled-records.ts';
import { reconcileAll } from './reconcile.ts';
import { countUnproved, readProof } from '../../../shared/books/reconciling/unproved-records.ts';
import { dayOf, type UsageEvent } from '../../../shared/events/event.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { makeMetrics } from '../../../shared/runtime/metrics.ts';
import { NEVER, PLAIN_NUMBER } from '../../../shared/stores/account-settings.ts';
import { END } from '../../../shared/stores/fields.ts';
import { newId } from '../../../shared/values/ids.ts';
import { DAY_MS } from '../../../shared/values/periods.ts';
import { column } from '../../../tests/helpers/columns.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { TEST_EPOCH } from '../../../tests/helpers/test-stores.ts';
import { makeConsumerWorld } from '../helpers/consumer-world.ts';
import { makeLedger } from '../helpers/ledger.ts';
import { watchProofs } from '../watch-proofs.ts';
import { rollUp } from './rollup.ts';

const never = new AbortController().signal;
const CREDIT = 1_000_000;
type Ledger = ReturnType<typeof makeLedger>;
const own = await makeConsumerWorld();
// Nothing is on its way.
test.before.each(() => own.carry());

/** A record of which something was written. What of that Redis and the books have, the test says. */
async function makeRecord(write: (ledger: Ledger) => void, timeMs = Date.now() - 1_000) {
  const { billingId: id, workspaceId, keyId } = await own.storeKeyAndBilling();
  const ref: BillingRef = { id, shard: 0, workspaceId, externalMeterId: 'm' };
  const ledger = makeLedger(id, { epoch: TEST_EPOCH, timeMs, keyId });
  write(ledger);
  return {
    ...ref,
    ledger,
    ofEpochBefore: (sequence: number, more: Partial<UsageEvent>) =>
      testEvent({ billingId: id, timeMs: Date.now() - DAY_MS, epoch: TEST_EPOCH - 1, sequence, ...more }),
    toRedis: (events = ledger.events) => {
      const { usedMicros = 0 } = events.at(-1) ?? {};
      // Of each epoch the last number.
      const sequences = Object.fromEntries(events.map(({ epoch, sequence }) => [`n${epoch}`, sequence]));
      return own.node.client.hset(billingKey(ref), { s: 'x', u: usedMicros, ...sequences });
    },
    toBooks: (events = ledger.events) => own.book(Date.now(), events),
    prove: async () => (await reconcile(own, [ref], 0))[0]!,
    proof: async () =>
      (await readProof(own.sql, workspaceId, 10)).different.map((one) => [one.status, one.differenceMicros]),
  };
}

const reconcileEach = (metrics = makeMetrics('test')) => reconcileAll(own, metrics, own.log, never);
const lines =
  (...credits: number[]) =>
  (ledger: Ledger) =>
    credits.forEach((one) => ledger.verify(one * CREDIT));

test('events on their way are no difference, and those from after the balance was read are none either', async () => {
  await own.sql`delete from job_watermarks`;
  const record = await makeRecord(lines(1, 1, 1, 1, 1));
  await record.toRedis();
  await record.toBooks(record.ledger.events.slice(0, 3));
  assert.is((await record.prove()).status, 'ON_ITS_WAY');
  await record.toBooks(record.ledger.events.slice(3));
  assert.is((await record.prove()).status, 'EXACT');
  record.ledger.at(Date.now() + 60_000).verify(2);
  record.ledger.inEpoch(TEST_EPOCH + 1).verify(3);
  await record.toBooks(record.ledger.events.slice(5));
  assert.is((await record.prove()).status, 'EXACT');
});

test('usage that bills another sum than the events is a difference, and is summed up again', async () => {
  const record = await makeRecord(lines(2));
  await record.toRedis();
  await record.toBooks();
  // As after a restore that laid one state of the books over another: a day that is over bills what no event has.
  const of = { workspace_id: record.workspaceId, billing_id: record.id, day: dayOf(Date.now() - 5 * DAY_MS) };
  const sums = { usage_name: 'calls', cost_micros: '50000000', events: '50', all_events: '50' };
  await own.books.client.insert({ table: 'usage_days', values: [{ ...of, ...sums }], format: 'JSONEachRow' });
  const { status, differenceMicros, billedMicros } = await record.prove();
  assert.equal([status, differenceMicros, billedMicros], ['TOO_MUCH', -50 * CREDIT, 52 * CREDIT]);
  await reconcileEach();
  const summed = await record.prove();
  assert.equal([summed.status, summed.billedMicros], ['EXACT', 2 * CREDIT]);
});

test('a difference is listed, shown, and told to webhooks once, however often it is found, another one again; exact again, it is neither', async () => {
  const record = await makeRecord(lines(1, 7, 8));
  const { events } = record.ledger;
  const heard = await own.listen(record.workspaceId);
  const shown = async () => {
    const metrics = makeMetrics('test');
    await watchProofs(own.sql, metrics, own.log, systemClock).stop();
    return Number(/^keytally_reconcile_differences\{.*\} (\d+)$/m.exec(await metrics.registry.metrics())?.[1]);
  };
  const told = async () =>
    (await heard('books.different')).map(({ data }) => `${data['status'] as string} ${data['difference'] as string}`);
  await record.toRedis(events.slice(0, 1));
  await record.toBooks(events.slice(0, 2));
  for (let twice = 0; twice < 2; twice++) await reconcileEach();
  assert.equal(await told(), ['TOO_MUCH -7']);
  assert.equal(await record.proof(), [['TOO_MUCH', -7 * CREDIT]]);
  await record.toBooks(events.slice(2));
  await reconcileEach();
  assert.equal((await told()).toSorted(), ['TOO_MUCH -15', 'TOO_MUCH -7']);
  const before = await shown();
  await own.loseEvents(record.id, 'seq > 1');
  await reconcileEach();
  assert.equal(await record.proof(), []);
  assert.is(await shown(), before - 1);
  const [first] = await heard('books.different');
  const { id: billingId, externalMeterId } = record;
  const differences = { difference: '-7', heldDifference: '0' };
  assert.equal(first!.data, { billingId, externalMeterId, status: 'TOO_MUCH', ...differences });
});

test('a loss is told until its usage arrives after all', async () => {
  const record = await makeRecord(lines(1));
  await record.toRedis();
  await record.toBooks();
  // As if the shard had been reopened since yesterday, and had lost two of five events.
  const late = [1, 2, 3, 4, 5].map((sequence) =>
    record.ofEpochBefore(sequence, { costMicros: CREDIT, usedMicros: sequence * CREDIT }),
  );
  const book = async (events: UsageEvent[]) => {
    await record.toBooks(events);
    await rollUp(own, Date.now() + DAY_MS, never);
    // It is rebuilt, which is a line of its own.
    await noteUnsettled(own.sql, [record.id]);
    await storeWatermark(own.sql, 9e15);
    await rebuildNoted(own);
    await own.carry();
  };
  await book(late.filter(({ sequence }) => sequence !== 3 && sequence !== 4));
  await reconcileEach();
  const { status, losses } = await record.prove();
  assert.equal([status, losses.map(({ events, micros }) => [events, micros])], ['EXACT', [[2, 2 * CREDIT]]]);
  await book(late);
  const arrived = await record.prove();
  assert.equal([arrived.status, arrived.losses], ['EXACT', []]);
});

test('a record set aside whose note was lost is noted again; when all were compared is kept, though a clock was ahead before', async () => {
  const record = await makeRecord(lines(1));
  await record.toRedis();
  await own.node.client.hset(billingKey({ ...record, shard: 0 }), 'u', 'aside x 0');
  await own.sql`insert into job_watermarks (job, at) values ('reconciled', 4e12) on conflict (job) do update set at = 4e12`;
  await reconcileEach();
  assert.is((await own.sql`select from unsettled_records where billing_id = ${record.id}`).count, 1);
  assert.ok((await countUnproved(own.sql)).ageSeconds! >= 0);
});

test('a record waits for what it had given until the books are surely past it, and their watermark is not from before the clock was set back', async () => {
  const record = await makeRecord(lines(1, 2, 4));
  await record.toRedis();
  await record.toBooks(record.ledger.events.slice(0, 2));
  const nowMs = Date.now();
  const used = () => own.node.client.hget(billingKey(record), 'u');
  await own.node.client.hset(billingKey(record), 'u', `aside x ${nowMs - 31_000}`);
  for (const [watermarkMs, found] of [
    [nowMs - 2_000, /^aside /],
    [nowMs + 60_000, /^aside /],
    [nowMs, /^3000000$/],
  ] as const) {
    await own.sql`delete from unsettled_records`;
    await noteUnsettled(own.sql, [record.id]);
    await storeWatermark(own.sql, watermarkMs);
    await rebuildNoted(own);
    assert.match((await used())!, found);
  }
  await own.carry();
});

test('adjustments behind one that the books lack and Postgres has wait for it, and of one that is applied again the first line stays', async () => {
  const record = await makeRecord(lines());
  const { id } = record;
  const [first, , third] = await Promise.all(
    Object.entries({ 2: 3, 4: 7, 8: 11 }).map(async ([credits, used], i) => {
      const [eventId, number] = [newId('evt'), i + 1];
      const fields = { id: eventId, number, costMicros: Number(credits) * CREDIT, usedMicros: used * CREDIT };
      await own.sql`
        insert into adjustments (id, team_id, billing_id, number, amount_micros, usage_name, day, reason, token_id, request_id)
        values (${eventId}, ${own.team.id}, ${id}, ${number}, ${fields.costMicros}, '', '2026-01-01', '', ${own.team.tokenId}, '')`;
      return record.ofEpochBefore(1, { ...fields, kind: 'adjustment', keyId: '', usageName: '' });
    }),
  );
  const rebuilt = async () => {
    await own.node.client.hset(billingKey(record), { s: 'x', a: 1, u: `aside x ${Date.now()}` });
    await noteUnsettled(own.sql, [id]);
    await storeWatermark(own.sql, Date.now());
    await rebuildNoted(own);
    await own.carry();
    return own.node.client.hmget(billingKey(record), 'u', 'a');
  };
  await record.toBooks([record.ofEpochBefore(1, { costMicros: CREDIT, usedMicros: CREDIT }), first!, third!]);
  // Their day has both in one sum.
  await rollUp(own, Date.now() + DAY_MS, never);
  assert.equal(await rebuilt(), [String(3 * CREDIT), '1']);

  // A Postgres that came back older may lack it for good.
  await own.sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`delete from adjustments where billing_id = ${id} and number = 2`;
  });
  assert.equal(await rebuilt(), [String(11 * CREDIT), '3']);
  await record.toBooks([{ ...first!, epoch: TEST_EPOCH, sequence: 0, usedMicros: 2 * CREDIT }]);
  assert.is((await record.prove()).lastMicros, 11 * CREDIT);
});

test('where the last line alone shows another balance, as of adjustments that were applied again, a rebuild puts that right', async () => {
  const record = await makeRecord(lines(1, 2));
  await record.toRedis();
  const [first, last] = record.ledger.events as [UsageEvent, UsageEvent];
  await record.toBooks([first, { ...last, usedMicros: 2 * CREDIT }]);
  const shown = async () => {
    const { status, lastMicros } = await record.prove();
    return [status, lastMicros];
  };
  assert.equal(await shown(), ['ON_ITS_WAY', 2 * CREDIT]);
  await reconcileEach();
  await storeWatermark(own.sql, Date.now());
  await rebuildNoted(own);
  await own.carry();
  assert.equal(await shown(), ['EXACT', 3 * CREDIT]);
});

// From here on records are left different, and every later run of the job would look at them again.

test('where reserved credits differ too, or lines that nobody counted, a last line that shows another balance excuses nothing', async () => {
  const found: string[] = [];
  for (const isAhead of [true, false]) {
    const record = await makeRecord((ledger) => void (isAhead ? ledger.moment() : ledger.hold(CREDIT)));
    const last = record.ledger.verify(2 * CREDIT);
    await record.toRedis();
    await record.toBooks([{ ...last, usedMicros: CREDIT }, record.ledger.events[0]!]);
    if (isAhead) await record.toBooks([record.ledger.moment()]);
    found.push((await record.prove()).status);
  }
  assert.equal(found, ['TOO_MUCH', 'TOO_MUCH']);
});

test('a difference of grants is told with its amount, told again when it is another one, and rebuilt', async () => {
  const record = await makeRecord(lines(1));
  const heard = await own.listen(record.workspaceId);
  await record.toRedis();
  await record.toBooks();
  const [row] = await own.sql`select version from billing_records where id = ${record.id}`;
  // An account with one class of 10 credits, of which it has told Postgres.
  const total = 10 * CREDIT;
  const state = [row!['version'], Date.now(), [[total]], [], [], []];
  const numbers = [CREDIT, 0, total, 0, total, NEVER, NEVER, 0, 0, PLAIN_NUMBER, total - CREDIT, CREDIT];
  const hot = Buffer.concat([Buffer.from(`@${END}`), Buffer.from(Float64Array.from(numbers).buffer)]);
  await own.node.client.hset(billingKey({ ...record, shard: 0 }), { u: hot, t: Buffer.from(encode(state)) });
  for (const more of [0, 1, 3]) {
    // As if the account had lost a refill that Postgres has.
    await own.sql`update billing_records set total_micros = ${total + more * CREDIT} where id = ${record.id}`;
    const { status, grants } = await record.prove();
    assert.equal([status, grants?.differenceMicros], [more ? 'MISSING' : 'EXACT', more * CREDIT]);
    await reconcileEach();
  }
  const told = column(await heard('books.different'), 'data');
  const found = told.map((one) => `${one.difference} ${one.grantsDifference}`);
  assert.equal(found, ['0 1', '0 3']);
  // By the books it needs no account.
  await storeWatermark(own.sql, Date.now());
  await rebuildNoted(own);
  assert.is(await own.node.client.hget(billingKey(record), 'u'), String(CREDIT));
});

/** Verifies 3 and holds 5 and 7; captures 6 of the first, releases the second, and a moment. */
function everyLine(ledger: Ledger): void {
  ledger.verify(3);
  const [first, second] = [ledger.hold(5), ledger.hold(7)];
  ledger.capture(first, 6);
  ledger.release(second);
  ledger.moment();
}

type Case = {
  write: (ledger: Ledger) => void;
  /** What of it Redis, and the books, do not have. */
  redisLacks?: (event: UsageEvent) => boolean;
  booksLack?: (event: UsageEvent) => boolean;
  /** Status, difference and that of reserved credits, and of each gap: after, before, events, micro-credits. */
  found: [Reconciliation['status'], number, number, ...(number | undefined)[][]];
};
const cases: { [what: string]: Case } = {
  'lines of every kind': { write: everyLine, found: ['EXACT', 0, 0] },
  'events are missing': {
    write: lines(1, 2.5, 4, 8),
    booksLack: ({ sequence }) => sequence === 2 || sequence === 3,
    found: ['MISSING', 6.5 * CREDIT, 0, [1, 4, 2, 6.5 * CREDIT]],
  },
  'Redis was put back to an earlier state': {
    write: (ledger) => (ledger.verify(CREDIT), ledger.at(Date.now() - DAY_MS).verify(5 * CREDIT)),
    redisLacks: ({ sequence }) => sequence === 2,
    found: ['TOO_MUCH', -5 * CREDIT, 0],
  },
  'Redis has forgotten a hold': {
    write: (ledger) => void (ledger.verify(1), ledger.at(Date.now() - DAY_MS).hold(5)),
    redisLacks: ({ kind }) => kind === 'hold',
    found: ['TOO_MUCH', 0, -5],
  },
  'Redis has no reserved credits, and the lines say that some are': {
    write: (ledger) => void ledger.hold(7),
    found: ['TOO_MUCH', 0, -7],
  },
  'a release is missing': {
    write: everyLine,
    booksLack: ({ kind }) => kind === 'release',
    found: ['MISSING', 0, -7, [4, 6, 1, 0]],
  },
  'nothing of it is in the books': {
    write: lines(1, 2),
    booksLack: () => true,
    found: ['MISSING', 3 * CREDIT, 0, [0, undefined, 2, undefined]],
  },
  'events of five days and two epochs are missing': {
    write: (ledger) => {
      ledger.inEpoch(TEST_EPOCH - 1);
      for (const [day, credits] of [
        [1, 2],
        [3, 4],
        [5, 6, 7],
        [8, 9],
      ].entries())
        lines(...credits)(ledger.at(Date.now() - (6 - day) * DAY_MS));
      lines(10, 11, 12)(ledger.inEpoch(TEST_EPOCH).at(Date.now() - 2 * DAY_MS));
    },
    booksLack: ({ costMicros }) => [2, 6, 9, 10, 12].includes(costMicros / CREDIT),
    // What of 19 credits the end of one epoch cost, and what the beginning of the next, nobody knows.
    found: [
      'MISSING',
      39 * CREDIT,
      0,
      [1, 3, 1, 2 * CREDIT],
      [5, 7, 1, 6 * CREDIT],
      [8, undefined, 1, undefined],
      [0, 2, 1, undefined],
      [2, undefined, 1, 12 * CREDIT],
    ],
  },
  'a turn is missing': {
    write: everyLine,
    booksLack: ({ kind }) => kind === 'moment',
    found: ['MISSING', 0, 0, [5, undefined, 1, 0]],
  },
};

for (const [when, ago] of Object.entries({ today: 1_000, 'on days that are over': 2 * DAY_MS }))
  test(`a comparison tells by how much and between which events the books differ, ${when}`, async () => {
    const records = await Promise.all(Object.values(cases).map(({ write }) => makeRecord(write, Date.now() - ago)));
    const booked: UsageEvent[] = [];
    for (const [i, { redisLacks = () => false, booksLack = () => false }] of Object.values(cases).entries()) {
      const { ledger, toRedis } = records[i]!;
      await toRedis(ledger.events.filter((event) => !redisLacks(event)));
      booked.push(...ledger.events.filter((event) => !booksLack(event)));
    }
    await own.book(Date.now(), booked);
    await rollUp(own, Date.now(), never);
    const results = await reconcile(own, records, 0);
    const read = await readBooked(own, records);
    for (const [i, [what, { redisLacks = () => false, found }]] of Object.entries(cases).entries()) {
      const { id } = records[i]!;
      const ofRecord = booked.filter(({ billingId }) => billingId === id);
      const { status, differenceMicros, heldDifferenceMicros, lastMicros, missing } = results.find(
        ({ billing }) => billing.id === id,
      )!;
      const gaps = missing.map((gap) => [gap.afterSequence, gap.beforeSequence, gap.events, gap.micros]);
      assert.equal([status, differenceMicros, heldDifferenceMicros, ...gaps], found, what);
      assert.is(lastMicros, ofRecord.findLast((event) => !redisLacks(event))?.usedMicros ?? 0, what);
      assert.is(read.get(id)!.lastMs, Math.max(0, ...ofRecord.map(({ timeMs }) => timeMs)), what);
      for (const { epoch, afterSequence, afterEvent, beforeSequence, beforeEvent } of missing) {
        const idOf = (sequence = 0) =>
          ofRecord.find((event) => event.epoch === epoch && event.sequence === sequence)?.id;
        assert.equal([afterEvent, beforeEvent], [idOf(afterSequence), idOf(beforeSequence)], what);
      }
    }
  });
