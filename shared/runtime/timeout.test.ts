import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock } from './clock.ts';
import { withTimeout } from './timeout.ts';

const test = suite('an answer with a limit of time');

test('counts where this process was too busy to read it in time, and then nobody is told of a timeout', async () => {
  let told = 0;
  const answer = withTimeout(systemClock, 1, sleep(5, 'here'), () => {
    told += 1;
    return new Error('late');
  });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  assert.is(await answer, 'here');
  await sleep(10);
  assert.is(told, 0);
});

test('that comes later is dropped, and the error told once', async () => {
  let told = 0;
  const later = Promise.withResolvers<void>();
  const answer = withTimeout(systemClock, 1, later.promise, () => {
    told += 1;
    return new Error('late');
  });
  assert.is(await answer.catch((error: Error) => error.message), 'late');
  later.resolve();
  assert.is(told, 1);
});

test.run();
