// No event holds up the others: whatever decodes is inserted, whichever days it is booked on.
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import { newId } from '../../shared/values/ids.ts';
import { anyEvents } from '../../tests/helpers/any-events.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';
import { insertEvents } from './insert-events.ts';

const own = await makeConsumerWorld();

test('adjustments of 120 months in one batch are all booked, and the usage of today with them', async () => {
  const billingId = newId('bill');
  const timeMs = Date.now();
  const days = Array.from({ length: 120 }, (_, i) => new Date(Date.UTC(2020, i, 15)).toISOString().slice(0, 10));
  const adjustments = days.map((day, i) => testEvent({ kind: 'adjustment', keyId: '', billingId, day, number: i + 1 }));
  const batch = [testEvent({ billingId, timeMs }), ...adjustments, testEvent({ billingId, timeMs, sequence: 2 })];
  await own.book(timeMs, batch);
  assert.equal(await own.booked(billingId), { events: 122, cost: 122 });
  assert.is((await own.changedDays(billingId)).length, 121);
});

test('ClickHouse takes every event that decodes, and gives back what it was', async () => {
  let taken = 0;
  await fc.assert(
    fc.asyncProperty(anyEvents, async (events) => {
      taken += events.length;
      await insertEvents(own.books, events, systemClock);
      const rows = await own.rows<Row>(
        `select event_id as id, toString(kind) as kind, key_id as keyId, billing_id as billingId,
                workspace_id as workspaceId, customer_id as customerId, toString(day) as day,
                usage_name as usageName, route, actor, reason, toUnixTimestamp64Milli(time) as timeMs,
                cost_micros as costMicros, used_micros as usedMicros, epoch, seq as sequence, number,
                held_micros as heldMicros, hold_id as holdId, hold_micros as holdMicros, detail, classes, crossed
         from usage_events where event_id in {ids:Array(String)}`,
        { ids: events.map(({ id }) => id) },
      );
      const numbers = ['timeMs', 'costMicros', 'usedMicros', 'sequence', 'heldMicros', 'holdMicros'] as const;
      const read = rows.map((row) => ({
        ...row,
        ...Object.fromEntries(numbers.map((name) => [name, Number(row[name])])),
        classes: (row.classes as unknown as string[][]).map((one) => one.map(Number)),
      }));
      assert.equal(byId(read as unknown as UsageEvent[]), byId(events));
    }),
    { numRuns: 12, endOnFailure: true },
  );
  assert.ok(taken > 300, `${taken} events`);
});

type Row = Record<keyof UsageEvent, string>;

function byId(events: UsageEvent[]): Record<string, UsageEvent> {
  return Object.fromEntries(events.map((event) => [event.id, event]));
}
