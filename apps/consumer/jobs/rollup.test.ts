import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { dayOf, type UsageEvent } from '../../../shared/events/event.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { newId } from '../../../shared/values/ids.ts';
import { testEvent } from '../../../tests/helpers/events.ts';
import { makeConsumerWorld } from '../helpers/consumer-world.ts';
import { makeMarkChangedDays } from '../changed-days.ts';
import { rollUp } from './rollup.ts';
import { column } from '../../../tests/helpers/columns.ts';

const DAY_MS = 86_400_000;
const NOON = Date.UTC(2026, 2, 10, 12);
const never = new AbortController().signal;
const own = await makeConsumerWorld();

test('an open day stays marked; a day that is over is summed up by usage name and unmarked', async () => {
  const billingId = newId('bill');
  const yesterday = NOON - DAY_MS;
  await own.book(NOON, [
    usage(billingId, { timeMs: yesterday, usageName: 'a', costMicros: 5 }),
    usage(billingId, { timeMs: yesterday, usageName: 'a', costMicros: 0 }),
    usage(billingId, { timeMs: yesterday, usageName: 'b', costMicros: 9_000_000_000_000_000 }),
    usage(billingId, { timeMs: NOON, usageName: 'a', costMicros: 7 }),
    usage('', { timeMs: yesterday }),
  ]);
  assert.equal(column(await own.changedDays(billingId), 'day'), [dayOf(yesterday), dayOf(NOON)]);
  await rollUp(own, NOON, never);
  assert.equal(column(await own.changedDays(billingId), 'day'), [dayOf(NOON)]);
  assert.equal(await daily(billingId), [
    { day: dayOf(yesterday), name: 'a', cost: '5', events: '2' },
    { day: dayOf(yesterday), name: 'b', cost: '9000000000000000', events: '1' },
  ]);
  assert.is((await own.sql`select from usage_marks where billing_id = ''`).count, 0);
});

test('a day keeps its quarter hours and its adjustments apart, with those of unmetered keys; no hour of before survives', async () => {
  const { workspaceId, keyId, billingId } = await own.storeKeyAndBilling();
  const yesterday = NOON - DAY_MS;
  const at = (slot: number) => yesterday - 12 * 3_600_000 + slot * 900_000;
  const ids = { keyId, billingId };
  await own.book(NOON, [
    usage(billingId, { ...ids, timeMs: at(40), costMicros: 5 }),
    usage(billingId, { ...ids, timeMs: at(41) - 1, costMicros: 6 }),
    usage(billingId, { ...ids, timeMs: at(96) - 1, costMicros: 0 }),
    usage(billingId, { kind: 'adjustment', keyId: '', day: dayOf(yesterday), number: 1, costMicros: -3 }),
    usage('', { keyId, timeMs: at(0), costMicros: 9 }),
  ]);
  await rollUp(own, NOON, never);
  const unmetered = { cost: 9, events: 1, slots: [0], costs: [9], counts: [1], adjusted: 0, adjustments: 0, all: 1 };
  const metered = { cost: 8, events: 3, slots: [40, 95], costs: [11, 0], counts: [2, 1], adjusted: -3, adjustments: 1 };
  const first = [
    { billing: '', ...unmetered },
    { billing: billingId, ...metered, all: 4 },
  ];
  assert.equal(await quarters(workspaceId), first);
  await own.book(NOON, [
    usage(billingId, { ...ids, timeMs: at(2), costMicros: 1 }),
    usage('', { keyId, timeMs: at(7), costMicros: 1 }),
  ]);
  await rollUp(own, NOON, never);
  const later = { slots: [2, 40, 95], costs: [1, 11, 0], counts: [1, 2, 1] };
  assert.equal(await quarters(workspaceId), [
    { billing: '', ...unmetered, cost: 10, events: 2, slots: [0, 7], costs: [9, 1], counts: [1, 1], all: 2 },
    { billing: billingId, ...metered, cost: 9, events: 4, ...later, all: 5 },
  ]);
  const ended = await own.sql`
    select from usage_marks where workspace_id = ${workspaceId} and day < ${dayOf(NOON)}`;
  assert.is(ended.count, 0);
});

test('a day is summed up ten minutes after its end, not before', async () => {
  const billingId = newId('bill');
  const midnight = Date.UTC(2026, 2, 10);
  await own.book(midnight, [usage(billingId, { timeMs: midnight - 1 })]);
  await rollUp(own, midnight + 9 * 60_000, never);
  assert.is((await own.changedDays(billingId)).length, 1);
  await rollUp(own, midnight + 10 * 60_000, never);
  assert.is((await own.changedDays(billingId)).length, 0);
});

test('a late event marks its day again, and the sums are computed again; repeated events do not count', async () => {
  const billingId = newId('bill');
  const first = usage(billingId, { timeMs: NOON - DAY_MS, costMicros: 3 });
  await own.book(NOON, [first]);
  await rollUp(own, NOON, never);
  const late = usage(billingId, { timeMs: NOON - DAY_MS, costMicros: 4 });
  await own.book(NOON, [late, first, late]);
  assert.is((await own.changedDays(billingId)).length, 1);
  await rollUp(own, NOON, never);
  assert.is((await own.changedDays(billingId)).length, 0);
  assert.equal(await daily(billingId), [{ day: dayOf(first.timeMs), name: 'default', cost: '7', events: '2' }]);
});

test('a mark that changes while its day is summed up is not cleared', async () => {
  const billingId = newId('bill');
  await own.book(NOON, [usage(billingId, { timeMs: NOON - DAY_MS })]);
  const [before] = await own.changedDays(billingId);
  let late = [usage(billingId, { timeMs: NOON - DAY_MS })];
  const client = new Proxy(own.books.client, {
    get: (target, name) =>
      name === 'command'
        ? async (...args: Parameters<typeof target.command>) => {
            await target.command(...args);
            if (late.length > 0) await own.book(NOON, late);
            late = [];
          }
        : Reflect.get(target, name, target),
  });
  await rollUp({ ...own, books: { ...own.books, client } }, NOON, never);
  const [after] = await own.changedDays(billingId);
  assert.ok(after!.mark > before!.mark);
  await rollUp(own, NOON, never);
  assert.is((await own.changedDays(billingId)).length, 0);
  const found = (await daily(billingId)).map((row) => row.events);
  assert.equal(found, ['2']);
});

test('a day whose books have lost events stays marked', async () => {
  const billingId = newId('bill');
  const events = [1, 2, 3].map((sequence) => usage(billingId, { timeMs: NOON - DAY_MS, sequence }));
  await own.book(NOON, events);
  await rollUp(own, NOON, never);
  await own.loseEvents(billingId, 'seq = 2');
  await makeMarkChangedDays(own.sql, systemClock)([events[0]!], NOON);
  await rollUp(own, NOON, never);
  assert.is((await own.changedDays(billingId)).length, 1);
  // Once the event is there again, its day is over.
  await own.book(NOON, [events[1]!]);
  await rollUp(own, NOON, never);
  assert.is((await own.changedDays(billingId)).length, 0);
});

function usage(billingId: string, more: Partial<UsageEvent> = {}): UsageEvent {
  return testEvent({ timeMs: NOON, billingId, ...more });
}

function quarters(workspaceId: string) {
  const small = (name: string, as: string) => `toInt32(${name}) as ${as}`;
  const list = (name: string, as: string) => `arrayMap(one -> toInt32(one), ${name}) as ${as}`;
  return own.rows(
    `select billing_id as billing, ${small('cost_micros', 'cost')}, ${small('usage_days.events', 'events')}, slots,
       ${list('slot_micros', 'costs')}, ${list('slot_events', 'counts')},
       ${small('adjustment_micros', 'adjusted')}, ${small('usage_days.adjustments', 'adjustments')}, ${small('all_events', 'all')}
     from usage_days final where workspace_id = {workspaceId:String} order by billing`,
    { workspaceId },
  );
}

function daily(billingId: string) {
  return own.rows<{ day: string; name: string; cost: string; events: string }>(
    `select toString(day) as day, usage_name as name, toString(cost_micros) as cost, toString(events) as events
     from usage_days final where billing_id = {billingId:String} order by usage_days.day, name`,
    { billingId },
  );
}
