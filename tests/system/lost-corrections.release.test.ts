import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLostEnds, type Scene } from '../helpers/lost-ends.ts';

// Holds that were ended by their ids alone, and corrections that are lost themselves: one end counts, once.

const test = suite('lost corrections');
let own: Awaited<ReturnType<typeof makeLostEnds>>;

test.before(async () => {
  own = await makeLostEnds('lost-corrections');
});
test.after(() => own?.stop());

const ofEmptiedRedis: Scene[] = [
  { acts: ['9', '9', '9'], used: '9' },
  { acts: ['9', '7', '5'], used: '9' },
  { acts: ['9', '7', ''], used: '9' },
  { acts: ['9', '', 'release'], used: '9' },
  { acts: ['9', 'release', ''], used: '9' },
  { acts: ['release', '7', ''], used: '7' },
  { acts: ['charge', '', '5'], used: '5' },
  { acts: ['charge', '5', '7'], used: '5' },
  { acts: ['charge 5', '7', ''], used: '5' },
  { acts: ['charge 5', '', '7'], used: '5' },
];

test('holds that were ended by their ids alone, in a Redis that was emptied twice, have ended once', async () => {
  const played = await own.play(ofEmptiedRedis);
  const lost: string[] = [];
  for (const epoch of [0, 1, 2]) {
    await own.actAll(played, epoch);
    if (epoch === 2) break;
    lost.push(...(await own.takeLines()));
    await own.emptyRedis();
  }
  await own.book(lost);
  await own.settle(played);
  await own.proved(played);
  await Promise.all(played.filter(({ used }) => used === '9').map(own.answeredAgain));
  await own.proved(played);
});

test('what was corrected is corrected again where Redis loses the correction, too', async () => {
  const played = await own.play([
    { acts: ['9', '7', '5'], used: '9' },
    { acts: ['9', '9', ''], used: '9' },
    { acts: ['9', '', 'release'], used: '9' },
    { acts: ['charge', '5', '7'], used: '5' },
  ]);
  await own.book(await own.takeLines());
  await own.keep('second');
  const lines: string[] = [];
  for (const epoch of [0, 1, 2]) {
    await own.actAll(played, epoch);
    lines.push(...(await own.takeLines()));
    if (epoch < 2) await own.comeBackAs('second');
  }
  await own.book(lines);
  await own.settle(played);
  assert.ok((await own.takeLines()).some((line) => line.includes('"x":"correction"')));
  // No correction leaves the outbox.
  await own.comeBackAs('second');
  await own.settle(played);
  await own.proved(played);
  await own.emptyRedis();
  await own.settle(played);
  await own.proved(played);
});

test.run();
