import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from '../../tests/helpers/clock.ts';
import { makeLogger } from './log.ts';
import { retry } from './retry.ts';

test('what fails is tried again until it succeeds, after pauses that double from 50 ms and never pass 2 s', async () => {
  const clock = makeTestClock();
  const lines: string[] = [];
  const log = makeLogger('test', 'info', { write: (line: string) => void lines.push(line) });
  const triedAt: number[] = [];
  const result = retry(clock, new AbortController().signal, log, 'storing', async () => {
    triedAt.push(clock.monotonic());
    if (triedAt.length < 9) throw new Error('not yet');
    return 'stored';
  });
  await clock.advance(60_000);
  assert.is(await result, 'stored');
  const pauses = triedAt.slice(1).map((at, i) => at - triedAt[i]!);
  assert.equal(pauses, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
  assert.is(lines.length, 9);
  assert.match(lines.at(-1)!, /storing works again/);
});

test('whoever stops in a pause waits for no more of it, and gets the next failure', async () => {
  const clock = makeTestClock();
  const stopping = new AbortController();
  let tries = 0;
  const failed = retry(clock, stopping.signal, makeLogger('test', 'silent'), 'storing', async () => {
    throw new Error(`failure ${++tries}`);
  }).catch(({ message }: Error) => message);
  await clock.advance(0);
  stopping.abort();
  assert.is(await failed, 'failure 2');
  assert.is(clock.monotonic(), 0);
});
