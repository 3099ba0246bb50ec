import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readPatience, waitedSince } from './patience.ts';

test('a deadline passes before its client gives up, takes at most half from others, and is over for who waits no more', () => {
  const now = 10_000;
  for (const [given, from, waitedMs] of [
    [undefined, now - 5_000, 0],
    ['1000', now, 0],
    ['1000', now - 600, 50],
    ['250', now, 50],
    ['100', now, 125],
    ['1', now, 125],
    ['1000', now - 800, 250],
    ['9999999', now, 0],
  ] as const)
    assert.is(now - waitedSince(readPatience(given, from), now, 250), waitedMs, `${given} from ${from}`);
  for (const given of ['0', '-1', '1.5', '1e3', '', ' 5', '10000000', 'soon'])
    assert.throws(() => readPatience(given, now), /whole number of milliseconds/, given);
});
