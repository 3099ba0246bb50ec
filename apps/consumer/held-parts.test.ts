import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { holdParts, type Part } from './held-parts.ts';

const HOUR_MS = 3_600_000;
const part: Part = { partition: 0, lastOffset: '0', events: [], outcomes: [], bytes: 0, unreadable: [] };

test('all that wait hear of a change, and of the signal', async () => {
  const held = holdParts(systemClock);
  const stopping = new AbortController();
  const wait = (holds: () => boolean) => held.waitUntil(holds, HOUR_MS, stopping.signal);
  const waits = [wait(() => !held.isEmpty()), wait(() => !held.isEmpty()), wait(held.isFull)];
  held.add(part);
  await Promise.all(waits.slice(0, 2));
  const taken = wait(held.isEmpty);
  assert.equal(held.takeBatch(), [part]);
  await taken;
  stopping.abort();
  await Promise.all([...waits, wait(held.isFull)]);
});
