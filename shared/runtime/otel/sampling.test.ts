import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeTestClock } from '../../../tests/helpers/clock.ts';
import { makeSampling, MOST_TRACED_PER_SECOND } from './sampling.ts';

const caller = (traceFlags: number, traceId = '0af7651916cd43dd8448eb211c80319c') => ({
  traceId,
  spanId: 'b7ad6b7169203331',
  traceFlags,
});
const low = '00000001000000000000000000000000';
const high = 'fffffff0000000000000000000000000';

test('a request is traced as its caller is, where the sampler goes by the caller', () => {
  for (const name of ['parentbased_always_on', 'parentbased_always_off', 'parentbased_traceidratio'] as const) {
    const sampling = makeSampling(name, 0.5);
    assert.equal([sampling(caller(1)), sampling(caller(0))], [true, false], name);
  }
});

test('the other samplers go by the trace id or by nothing', () => {
  for (const flags of [0, 1]) {
    assert.is(makeSampling('always_on', 0)(caller(flags)), true);
    assert.is(makeSampling('always_off', 1)(caller(flags)), false);
    const byRatio = makeSampling('traceidratio', 0.5);
    assert.equal([byRatio(caller(flags, low)), byRatio(caller(flags, high))], [true, false]);
  }
});

test('without a caller the rest of the name decides, a ratio by that share', () => {
  assert.is(makeSampling('parentbased_always_on', 0)(null), true);
  assert.is(makeSampling('parentbased_always_off', 1)(null), false);
  const sampling = makeSampling('parentbased_traceidratio', 0.01);
  const traced = Array.from({ length: 20_000 }, () => sampling(null)).filter(Boolean).length;
  // 200 is expected, with a deviation of 14.
  assert.ok(traced > 100 && traced < 300, `${traced} of 20,000`);
});

test('however many callers ask for a trace, a process makes no more than so many a second', async () => {
  const clock = makeTestClock();
  const sampling = makeSampling('parentbased_traceidratio', 0.01, clock);
  const traced = () => Array.from({ length: 20_000 }, () => sampling(caller(1))).filter(Boolean).length;
  assert.is(traced(), MOST_TRACED_PER_SECOND);
  await clock.advance(100);
  assert.is(traced(), MOST_TRACED_PER_SECOND / 10);
});
