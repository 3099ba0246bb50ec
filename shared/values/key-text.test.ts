import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { keyShard, makeKeyText, maskKeyText, SHARDS } from './key-text.ts';

const prefixes = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_]{0,31}$/);
const shards = fc.integer({ min: 0, max: SHARDS - 1 });
const keys = fc.tuple(prefixes, shards).map(([prefix, shard]) => ({ prefix, shard, text: makeKeyText(prefix, shard) }));

test('a key text is its prefix and a body of 34 characters that begins with its shard; its mask shows the prefix and four characters at each end', () => {
  fc.assert(
    fc.property(keys, ({ prefix, shard, text }) => {
      assert.is(keyShard(text), shard);
      assert.is(text.slice(0, -35), prefix);
      assert.match(text.slice(-35), /^_[0-9]{2}[0-9A-Za-z]{32}$/);
      assert.is(maskKeyText(text), `${prefix}_${text.slice(-34, -30)}****${text.slice(-4)}`);
    }),
  );
});

test('a key text with any one character changed, and arbitrary text, is refused', () => {
  fc.assert(
    fc.property(keys, fc.nat(), fc.stringMatching(/^[0-9A-Za-z_]$/), ({ text }, at, character) => {
      const index = at % text.length;
      const changed = text.slice(0, index) + character + text.slice(index + 1);
      assert.is(keyShard(changed), changed === text ? keyShard(text) : undefined);
    }),
    { numRuns: 1000 },
  );
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => assert.is(keyShard(text), undefined)));
  assert.is(keyShard(`${makeKeyText('key', 1)}\n`), undefined);
});

test('each random character is as likely as any other', () => {
  const texts = Array.from({ length: 5_000 }, () => makeKeyText('key', 0).slice(6, 32));
  const counts = Object.values(Object.groupBy(texts.join('').match(/./g)!, (character) => character)).map(
    (all) => all!.length,
  );
  const expected = (5_000 * 26) / 62;
  assert.is(counts.length, 62);
  // A remainder of bytes would put 8 of 62 a quarter above the others; chance comes this far once in millions of runs.
  for (const count of counts) assert.ok(Math.abs(count - expected) < 6 * Math.sqrt(expected), `${count}`);
});
