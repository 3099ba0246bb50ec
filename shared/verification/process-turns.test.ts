import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeSlots } from './slots.ts';
import { makeProcessTurns } from './process-turns.ts';

test('a call of another team goes on before most of two hundred long ones that came first', async () => {
  const { wait } = makeProcessTurns(makeSlots(400));
  const order: string[] = [];
  const asked = ['hostile', 'good'].flatMap((team) => {
    const calls = Array.from({ length: team === 'good' ? 1 : 200 }, () => wait(team, team === 'good' ? 100 : 16_384));
    return calls.map((turn) => turn?.then(() => order.push(team)));
  });
  const atOnce = asked.filter((turn) => turn === undefined).length;
  assert.ok(atOnce >= 1 && atOnce < 10, `${atOnce} of them went on at once`);
  await Promise.all(asked.filter((turn) => turn !== undefined));
  assert.is(order.length, 201 - atOnce);
  assert.ok(order.indexOf('good') < 10, `${order.indexOf('good')} others went on first`);
});
