import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from './clock.ts';

test('timers of a test clock come due in their order, when the test moves it, and those that ended never', async () => {
  const clock = makeTestClock(1_000_000);
  const seen: string[] = [];
  const note = (what: string) => () => void seen.push(`${what} at ${clock.now() - 1_000_000}`);
  clock.after(30, note('after'));
  clock.after(5, note('never'))();
  const end = clock.every(20, note('every'));
  void clock.sleep(25).then(note('slept'));
  const stopping = new AbortController();
  const slept = clock.sleep(10, stopping.signal).then(note('never'), note('aborted'));
  stopping.abort();
  await slept;
  await clock.advance(40);
  assert.equal(seen, ['aborted at 0', 'every at 20', 'slept at 25', 'after at 30', 'every at 40']);
  end();
  await clock.advance(100);
  assert.is(seen.length, 5);
  assert.is(clock.monotonic(), 140);
});
