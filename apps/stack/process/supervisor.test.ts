import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makePauses } from './supervisor.ts';

test('a program that keeps ending is started again after longer pauses, always within 2 seconds; one that ran for long at once', () => {
  const pauseAfter = makePauses();
  assert.equal(
    [0, 100, 10_000, 0, 0, 0].map((ranMs) => pauseAfter(ranMs)),
    [50, 200, 500, 1_000, 1_500, 1_500],
  );
  assert.equal(
    [10_001, 0, 10_001].map((ranMs) => pauseAfter(ranMs)),
    [50, 200, 50],
  );
});
