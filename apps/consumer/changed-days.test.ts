import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { UsageEvent } from '../../shared/events/event.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { newId } from '../../shared/values/ids.ts';
import { testEvent } from '../../tests/helpers/events.ts';
import { makeMarkChangedDays } from './changed-days.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';

const DAY_MS = 86_400_000;
const NOON = Date.UTC(2026, 2, 10, 12);
const own = await makeConsumerWorld();

test('a process marks a record once a day; it marks it again on a new day, and for another day', async () => {
  const billingId = newId('bill');
  const markChangedDays = makeMarkChangedDays(own.sql, systemClock);
  const now = [usage(billingId, { timeMs: NOON })];
  const marked = async (events: UsageEvent[], nowMs: number) => {
    await markChangedDays(events, nowMs);
    return (await own.changedDays(billingId)).map(({ mark }) => mark);
  };
  const [first] = await marked(now, NOON);
  assert.equal(await marked(now, NOON + 1), [first]);
  // By the clock that was read after the insert the day is over: it may have been rolled up meanwhile.
  const [second] = await marked(now, NOON + DAY_MS);
  assert.ok(second! > first!);
  const [third] = await marked(now, NOON + DAY_MS);
  assert.ok(third! > second!);
  // The clock was set back: the earlier mark may have been cleared.
  const [fourth] = await marked(now, NOON);
  assert.ok(fourth! > third!);
});

function usage(billingId: string, more: Partial<UsageEvent> = {}): UsageEvent {
  return testEvent({ timeMs: NOON, billingId, ...more });
}
