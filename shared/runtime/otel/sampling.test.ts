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

test('a request is traced as its caller is, by its trace id, or by nothing, as the name of the sampler says', () => {
  for (const [name, ofSampled, ofLow, ofHigh, alone] of [
    ['parentbased_always_on', true, false, false, true],
    ['parentbased_always_off', true, false, false, false],
    ['parentbased_traceidratio', true, false, false, undefined],
    ['always_on', true, true, true, true],
    ['always_off', false, false, false, false],
    ['traceidratio', false, true, false, undefined],
  ] as const) {
    const sampling = makeSampling(name, 0.5);
    const decided = [caller(1, high), caller(0, low), caller(0, high)].map((one) => sampling(one));
    assert.equal(decided, [ofSampled, ofLow, ofHigh], name);
    if (alone !== undefined) assert.is(sampling(null), alone, name);
  }
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
