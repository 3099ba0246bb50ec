import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { DAY_MS, QUARTER_MS } from '../../../shared/values/periods.ts';
import { spread, type Quarter } from './curve.ts';

const curve = { growth: 1, weekend: 0.3, night: 0.1 };
const monday = Date.UTC(2026, 0, 5);
const DAYS = 28;

test('made-up days have all calls and no more, and none outside of their time', () => {
  const quarters = spread(123_457, curve, monday, DAYS);
  assert.is(sum(quarters), 123_457);
  assert.is(quarters[0]!.startMs, monday);
  assert.is(quarters.at(-1)!.startMs, monday + DAYS * DAY_MS - QUARTER_MS);
  assert.ok(quarters.every(({ calls }) => calls >= 0));
  assert.equal(spread(123_457, curve, monday, DAYS), quarters, 'the same each time');
  assert.is(sum(spread(3, curve, monday, DAYS)), 3);
});

function sum(quarters: Quarter[]): number {
  return quarters.reduce((total, { calls }) => total + calls, 0);
}
