import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from '../../shared/runtime/clock.ts';
import { gatherParts, type Part } from './waiting-parts.ts';

const HOUR_MS = 3_600_000;
const part: Part = { partition: 0, lastOffset: '0', events: [], outcomes: [], bytes: 0, unreadable: [] };

test('all that wait hear of a change, and of the signal', async () => {
  const waiting = gatherParts(systemClock);
  const stopping = new AbortController();
  const wait = (holds: () => boolean) => waiting.waitUntil(holds, HOUR_MS, stopping.signal);
  const waits = [wait(() => !waiting.isEmpty()), wait(() => !waiting.isEmpty()), wait(waiting.isFull)];
  waiting.add(part);
  await Promise.all(waits.slice(0, 2));
  const taken = wait(waiting.isEmpty);
  assert.equal(waiting.takeBatch(), [part]);
  await taken;
  stopping.abort();
  await Promise.all([...waits, wait(waiting.isFull)]);
});
