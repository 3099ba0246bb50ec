import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeLostEnds, type Scene } from '../helpers/lost-ends.ts';
import { eventually } from '../helpers/world.ts';

// Holds whose ends an older Redis has lost, and that end again: one end counts, once.

const test = suite('second captures');
let own: Awaited<ReturnType<typeof makeLostEnds>>;

test.before(async () => {
  own = await makeLostEnds('second-captures');
});
test.after(() => own?.stop());

const ofOlderRedis: Scene[] = [
  { acts: ['', '', ''], used: '0' },
  { acts: ['extend', '', ''], used: '0' },
  { acts: ['9', '', '9'], used: '9' },
  { acts: ['9', '9', '9'], used: '9' },
  { acts: ['9', '7', '5'], used: '9' },
  { acts: ['9', '7', ''], used: '9' },
  { acts: ['9', '', 'release'], used: '9' },
  { acts: ['9', '7', 'release'], used: '9' },
  { acts: ['9', 'release', ''], used: '9' },
  { acts: ['release', '7', ''], used: '7' },
  { acts: ['release', 'release', ''], used: '0' },
  { acts: ['charge', 'charge', 'charge'], used: '30' },
  { acts: ['charge', '5', 'charge'], used: '5' },
  { acts: ['charge', '5', '7'], used: '5' },
  { acts: ['charge 5', '7', ''], used: '5' },
  { acts: ['charge 5', '', 'charge'], used: '5' },
];

test('holds that an older Redis ended up to three times have ended once, whichever loss the books hear of first', async () => {
  const [one, other] = [await own.play(ofOlderRedis), await own.play(ofOlderRedis)];
  const all = [...one, ...other];
  await own.book(await own.takeLines());
  await own.keep('first');
  const lost: string[][] = [];
  for (const epoch of [0, 1, 2]) {
    await own.actAll(all, epoch);
    if (epoch === 2) break;
    lost.push(await own.takeLines());
    await own.comeBackAs('first');
  }
  const [first = [], second = []] = lost;
  const isOfOther = (line: string) => other.some(({ id }) => line.includes(id));
  await own.book([...first.filter((line) => !isOfOther(line)), ...second.filter(isOfOther)]);
  await own.settle(all);
  await own.book([...first, ...second]);
  await own.settle(all);
  await own.proved(all);
  await Promise.all(all.filter(({ used }) => used === '9').map(own.answeredAgain));
  await own.proved(all);
  const extended = one.find(({ acts }) => acts[0] === 'extend')!;
  const { body } = await own.world.call('get', `/api/v1/customer-billing/${extended.id}/holds`);
  const [{ createdAt, expiresAt }] = body.holds;
  assert.ok(expiresAt - Date.parse(createdAt) > 3_000_000, 'it ends as it was extended');
});

test('a settler that dies after the balance and before the holds is followed by one that settles these, too', async () => {
  const played = await own.play([
    { acts: ['9', '', '7'], used: '9' },
    { acts: ['9', '', ''], used: '9' },
    { acts: ['9', '', 'release'], used: '9' },
  ]);
  await own.book(await own.takeLines());
  await own.keep('third');
  await own.actAll(played, 0);
  const lost = await own.takeLines();
  await own.comeBackAs('third');
  await own.actAll(played, 2);
  own.refusing.refuse('is_lost');
  await own.book(lost);
  await own.note(played);
  await eventually('it was tried', async () => {
    const notes = await own.notesOf(played);
    return notes.length === played.length && notes.every(({ attempts }) => attempts > 0);
  });
  await own.killApi();
  own.refusing.refuse(undefined);
  await own.startAgain();
  await own.settle(played);
  await own.proved(played);
});

test.run();
