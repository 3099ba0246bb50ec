import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from '../../tests/helpers/clock.ts';
import { makeWorld, eventually } from '../../tests/helpers/world.ts';
import { makeLogger } from '../runtime/log.ts';
import { startDueLoop, wakeWhenDue } from './due-loops.ts';

const { sql } = await makeWorld([]);

test('a loop works at once, within a second when something is due for it, and every ten seconds though nothing said so', async () => {
  const clock = makeTestClock();
  const runtime = { clock, log: makeLogger('test', 'silent') };
  const worked = { first: 0, second: 0 };
  const isDue = { first: false, second: false };
  const looks = new Set<number>();
  const loops = (['first', 'second'] as const).map((name) =>
    startDueLoop(
      runtime,
      name,
      (asked) => {
        looks.add(clock.monotonic());
        return asked`${isDue[name]}::boolean`;
      },
      async () => void (worked[name] += 1),
    ),
  );
  const waking = wakeWhenDue(sql, runtime, loops);
  assert.equal(worked, { first: 1, second: 1 });
  isDue.second = true;
  await eventually('a look', async () => {
    await clock.advance(1_000);
    return worked.second === 2;
  });
  assert.equal(worked, { first: 1, second: 2 });
  isDue.second = false;
  await eventually('the slow look', async () => {
    await clock.advance(1_000);
    return worked.first === 2;
  });
  assert.is(clock.monotonic(), 10_000);
  await waking.stop();
});
