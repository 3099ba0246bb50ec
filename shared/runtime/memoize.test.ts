import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { twoOfOneNumber } from '../../tests/helpers/same-number.ts';
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

test('texts of one number are told apart', () => {
  const texts = twoOfOneNumber(String).map(String);
  const read = memoize((text) => `made of ${text}`);
  for (const text of [...texts, ...texts]) assert.is(read(text), `made of ${text}`);
});

test('it forgets when it remembers as much as it may', () => {
  let made = 0;
  const read = memoize(() => (made += 1), 2);
  // From its first text on it remembers what comes again: the second b, and the second c, for which it forgets a and b.
  for (const text of ['a', 'b', 'b', 'a', 'b']) read(text);
  assert.is(made, 3);
  for (const text of ['c', 'c', 'c']) read(text);
  assert.is(made, 5);
  assert.is(read('b'), 6);
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

test('from a quarter on, what comes once is not remembered', () => {
  const read = memoize((text) => ({ parts: text.split(' ') }));
  for (let i = 0; i < 9_900; i++) read(`${i} ${'x'.repeat(1_000)}`);
  const twice = ['again', 'again', 'again'].map(read);
  assert.is.not(twice[0], twice[1]);
  assert.is(twice[1], twice[2]);
});
