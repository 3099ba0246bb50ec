import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { gather } from './gather.ts';

test('what comes while it works is done together, at most so many at once, and each gets its own result', async () => {
  const done: number[][] = [];
  const double = gather(3, async (numbers: number[]) => {
    done.push(numbers);
    await new Promise((resolve) => setImmediate(resolve));
    return numbers.map((one) => one * 2);
  });
  assert.equal(await Promise.all([1, 2, 3, 4, 5].map(double)), [2, 4, 6, 8, 10]);
  assert.is(await double(6), 12);
  assert.equal(done, [[1], [2, 3, 4], [5], [6]]);
});

test('a failure is that of those it was done with, and of no others', async () => {
  const work = gather(2, async (numbers: number[]) => {
    if (numbers.includes(2)) throw new Error('no');
    return numbers;
  });
  const ended = await Promise.allSettled([1, 2, 3, 4].map(work));
  assert.equal(
    ended.map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected', 'fulfilled'],
  );
});
