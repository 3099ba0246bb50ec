import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from '../../tests/helpers/clock.ts';
import { makeWorld, eventually } from '../../tests/helpers/world.ts';
import { makeLogger } from '../runtime/log.ts';
import { startDueLoop, wakeWhenDue } from './due-loops.ts';

const { sql } = await makeWorld([]);

test('a loop works at once, within a second when something is due for it, and every ten seconds though nothing said so', async () => {
  const clock = makeTestClock();
  let pauses = 0;
  const sleep: typeof clock.sleep = (ms, signal) => (pauses++, clock.sleep(ms, signal));
  const runtime = { clock: { ...clock, sleep }, log: makeLogger('test', 'silent') };
  const worked = { first: 0, second: 0 };
  const isDue = { first: false, second: false };
  const loops = (['first', 'second'] as const).map((name) =>
    startDueLoop(
      runtime,
      name,
      (asked) => asked`${isDue[name]}::boolean`,
      async () => void (worked[name] += 1),
    ),
  );
  const waking = wakeWhenDue(sql, runtime, loops);
  // The clock stands still while Postgres answers.
  await eventually('each pauses', async () => pauses === 3);
  assert.equal(worked, { first: 1, second: 1 });
  isDue.second = true;
  await clock.advance(1_000);
  await eventually('a look', async () => worked.second === 2);
  assert.equal(worked, { first: 1, second: 2 });
  isDue.second = false;
  await clock.advance(8_999);
  assert.is(worked.first, 1);
  await clock.advance(1);
  assert.is(worked.first, 2, 'the slow look');
  await waking.stop();
});
