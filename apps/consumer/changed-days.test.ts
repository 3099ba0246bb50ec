import { test } from 'uvu';
import * as assert from 'uvu/assert';
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
  let today = NOON;
  const markChangedDays = makeMarkChangedDays(own.sql, { ...systemClock, now: () => today });
  const marked = async (nowMs?: number) => {
    await markChangedDays([testEvent({ timeMs: NOON, billingId })], nowMs);
    return (await own.changedDays(billingId)).map(({ mark }) => mark);
  };
  const [first] = await marked(NOON);
  assert.equal(await marked(NOON + 1), [first]);
  // By the clock that was read after the insert the day is over: it may have been rolled up meanwhile.
  const [second] = await marked(NOON + DAY_MS);
  assert.ok(second! > first!);
  const [third] = await marked(NOON + DAY_MS);
  assert.ok(third! > second!);
  // The clock was set back: the earlier mark may have been cleared.
  const [fourth] = await marked(NOON);
  assert.ok(fourth! > third!);
  // What comes in late is marked before it is inserted, by a process that has had nothing since midnight: that day was rolled up.
  today = NOON + DAY_MS;
  assert.ok((await marked())[0]! > fourth!);
});
