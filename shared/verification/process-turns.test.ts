import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePlaces } from './places.ts';
import { makeProcessTurns } from './process-turns.ts';

const test = suite('turns of teams in a process');

test('a call of another team goes on before most of two hundred long ones that came first', async () => {
  let ms = 0;
  const { wait } = makeProcessTurns(makePlaces(400), () => ms);
  const order: string[] = [];
  const asked = ['hostile', 'good'].flatMap((team) => {
    const calls = Array.from({ length: team === 'good' ? 1 : 200 }, () => wait(team, team === 'good' ? 100 : 16_384));
    return calls.map((turn) => turn?.then(() => order.push(team)));
  });
  const atOnce = asked.filter((turn) => turn === undefined).length;
  assert.ok(atOnce >= 1 && atOnce < 5, `${atOnce} of them went on at once`);
  // The event loop works while the turns are given.
  const clock = setInterval(() => (ms += 1));
  await Promise.all(asked.filter((turn) => turn !== undefined));
  clearInterval(clock);
  assert.ok(order.indexOf('good') < 5, `${order.indexOf('good')} others went on first`);
});

test('a call that comes alone does not wait', () => {
  let ms = 0;
  const { wait } = makeProcessTurns(makePlaces(400), () => ms);
  for (; ms < 1_000; ms++) assert.is(wait('team', 16_384), undefined);
});

test.run();
