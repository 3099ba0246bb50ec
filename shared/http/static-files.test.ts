import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { inSlices } from './static-files.ts';

test('of all bodies that are sent at once, one slice goes out in each round of the event loop, and each body is whole', async () => {
  const bodies = Array.from({ length: 8 }, (_, i) => Buffer.alloc(100_000, i));
  let round = 0;
  let going = true;
  const count = () => {
    round += 1;
    if (going) setImmediate(count);
  };
  count();
  const rounds: number[] = [];
  const read = bodies.map(async (body) => {
    const slices: Buffer[] = [];
    for await (const slice of inSlices(body)) {
      if (slices.length > 0) rounds.push(round);
      slices.push(slice as Buffer);
    }
    return Buffer.concat(slices);
  });
  assert.equal(await Promise.all(read), bodies);
  going = false;
  assert.is(rounds.length, 8 * 6);
  assert.is(new Set(rounds).size, rounds.length, 'no two of them in one round');
});
