import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { memoize } from './memoize.ts';

test('a text is made something of once, a long one each time', () => {
  let made = 0;
  const lengthOf = memoize((text) => {
    made += 1;
    return text.length;
  });
  for (const text of ['a', 'b'.repeat(4_096), 'a', 'b'.repeat(4_096)]) assert.is(lengthOf(text), text.length);
  assert.is(made, 2);
  for (let i = 0; i < 2; i++) assert.is(lengthOf('c'.repeat(4_097)), 4_097);
  assert.is(made, 4);
  for (let i = 0; i < 2; i++) assert.is(lengthOf('\ud800'), 1);
});

test('what it remembers stays below its bounds of texts and of characters, and is not nothing', () => {
  for (const [count, rest, maxEntries, most] of [
    [1_000, '', 100, 100],
    [3_000, 'x'.repeat(4_000), 10_000, 1_000],
  ] as const) {
    let made = 0;
    const read = memoize(() => (made += 1), maxEntries);
    const texts = Array.from({ length: count }, (_, i) => i + rest);
    for (const text of texts) for (let i = 0; i < 2; i++) read(text);
    made = 0;
    // Since it forgets all at once, it remembers the newest.
    const remembered = texts.toReversed().findIndex((text) => read(text) === 1 && made === 1);
    assert.ok(remembered > 0 && remembered <= most, `${remembered} of ${count}`);
  }
});
