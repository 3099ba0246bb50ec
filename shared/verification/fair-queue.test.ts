import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeFairQueue } from './fair-queue.ts';
import { makeSlots } from './slots.ts';

const call = (team: string, cost: number) => ({ team, cost });

test('teams that wait together get the same cost done, however many calls each has and whatever they cost', () => {
  const queue = makeFairQueue(160);
  for (let i = 0; i < 3_000; i++) queue.push(call('hostile', 150));
  for (let i = 0; i < 500; i++) queue.push(call('good', 10));
  const done = { hostile: 0, good: 0 };
  while (done.good < 5_000) {
    const { team, cost } = queue.take()!;
    done[team as keyof typeof done] += cost;
    assert.ok(done.hostile <= done.good + 2 * 160, `${done.hostile} beside ${done.good}`);
  }
});

test('a team pays in its next turns for what its calls cost beyond what was expected of them', () => {
  const queue = makeFairQueue(160);
  for (let i = 0; i < 200; i++) for (const team of ['hostile', 'good']) queue.push(call(team, 10));
  const taken = { hostile: 0, good: 0 };
  while (taken.good < 160) {
    const { team } = queue.take()!;
    taken[team as keyof typeof taken] += 1;
    if (team === 'hostile') queue.charge(team, 90);
  }
  assert.ok(taken.hostile <= 16 + 160 / 10, `${taken.hostile} calls of ten times the cost beside ${taken.good}`);
});

test('the calls of a team keep their order, and each is given once', () => {
  const queue = makeFairQueue<ReturnType<typeof call> & { number: number }>(160);
  for (let number = 0; number < 100; number++) queue.push({ ...call(`team-${number % 3}`, 7 * (number % 40)), number });
  const seen = new Map<string, number[]>();
  for (let one = queue.take(); one; one = queue.take()) seen.set(one.team, [...(seen.get(one.team) ?? []), one.number]);
  for (const numbers of seen.values())
    assert.equal(
      numbers,
      numbers.toSorted((a, b) => a - b),
    );
  assert.equal([[...seen.values()].flat().length, queue.size()], [100, 0]);
});

test('when all slots are taken, a team below its share still gets in, one above it does not, and no more than twice as many are in', () => {
  const slots = makeSlots(8);
  for (let i = 0; i < 8; i++) slots.enter('hostile');
  assert.not.ok(slots.hasRoom('hostile'));
  for (let i = 0; i < 4; i++) {
    assert.ok(slots.hasRoom() && slots.hasRoom('good'), `the good team has ${i}`);
    slots.enter('good');
  }
  assert.not.ok(slots.hasRoom('good'), 'it has its half');
  for (let i = 0; i < 4; i++) slots.enter(`team-${i}`);
  assert.not.ok(slots.hasRoom() || slots.hasRoom('another'));
  for (let i = 0; i < 8; i++) slots.leave('hostile');
  for (let i = 0; i < 4; i++) slots.leave('good');
  for (let i = 0; i < 4; i++) slots.leave(`team-${i}`);
  for (let i = 0; i < 8; i++) {
    assert.ok(slots.hasRoom('hostile'), 'alone it may take all');
    slots.enter('hostile');
  }
});
