import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from '../../tests/helpers/clock.ts';
import { withTimeout } from './timeout.ts';

const late = () => new Error('late');

test('counts where it is there when this process finds that the time is over', async () => {
  const clock = makeTestClock();
  const { promise, resolve } = Promise.withResolvers<string>();
  const after = (ms: number, work: () => void) => clock.after(ms, () => (work(), resolve('here')));
  const answer = withTimeout({ ...clock, after }, 5, promise, late);
  await clock.advance(5);
  assert.is(await answer, 'here');
});

test('that comes later is dropped; before its time is over nobody is told', async () => {
  const clock = makeTestClock();
  const { promise, resolve } = Promise.withResolvers<string>();
  let told = '';
  const answer = withTimeout(clock, 5, promise, late).catch(({ message }: Error) => (told = message));
  await clock.advance(4);
  assert.is(told, '');
  await clock.advance(1);
  assert.is(await answer, 'late');
  resolve('too late');
  assert.is(told, 'late');
});
