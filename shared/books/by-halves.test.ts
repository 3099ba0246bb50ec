import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ApiError } from '../contract/errors.ts';
import { byHalves } from './by-halves.ts';

const readable = () => Promise.resolve();

test('those that fail alone are given, and hold up no other', async () => {
  const done: number[] = [];
  const work = async (items: number[]) => {
    if (items.includes(3) || items.includes(8)) throw new Error(`not ${items.join()}`);
    done.push(...items);
  };
  const failed = await byHalves([1, 2, 3, 4, 5, 6, 7, 8, 9], work, readable);
  const found = failed.map(({ error }) => (error as Error).message);
  assert.equal(found, ['not 3', 'not 8']);
  const shown = failed.map(({ item }) => item);
  assert.equal(shown, [3, 8]);
  assert.equal(done, [1, 2, 4, 5, 6, 7, 9]);
});

test('where a server fails nobody fails alone', async () => {
  const down = () => Promise.reject(new Error('the books are down'));
  const closed = new ApiError('redis_unavailable');
  for (const [error, requireBooks, told] of [
    [new Error('a query failed'), down, 'the books are down'],
    [closed, readable, closed.message],
  ] as const) {
    const failing = byHalves([1, 2], () => Promise.reject(error), requireBooks);
    assert.is(await failing.catch((thrown: Error) => thrown.message), told);
  }
});
