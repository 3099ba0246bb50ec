import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { findKeyTexts } from './find-secrets.ts';
import { keyShard, makeKeyText, SHARDS } from './key-text.ts';

const prefixes = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_]{0,31}$/);
const keys = fc
  .tuple(prefixes, fc.integer({ min: 0, max: SHARDS - 1 }))
  .map(([prefix, shard]) => makeKeyText(prefix, shard));

test('every key text is found, whatever stands around it', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.string(), keys)), fc.string(), (parts, rest) => {
      const found = new Set(findKeyTexts(parts.map(([before, key]) => `${before} ${key}`).join(' ') + ` ${rest}`));
      for (const [, key] of parts) assert.ok(found.has(key), key);
    }),
    { numRuns: 300 },
  );
});

test('letters, digits and signs right beside a key text do not hide it', () => {
  for (const text of [
    makeKeyText('key', 3),
    makeKeyText('kt', 63),
    makeKeyText('a_b_c', 0),
    makeKeyText('k'.repeat(32), 9),
  ]) {
    for (const [before, after] of [
      ['', ''],
      [String.raw`{"log":"\n`, String.raw`\n"}`],
      ['x-api-key=', '&a=b'],
      ['https://a.example/?k=', 'abc'],
      ['12', '_'],
      ['é', 'é'],
    ])
      assert.equal(findKeyTexts(before + text + after), [text], before + text + after);
    assert.equal(findKeyTexts(text.replaceAll('_', '%5F')), [text]);
    assert.equal(findKeyTexts(text.replaceAll('_', '%5f')), [text]);
    assert.equal(findKeyTexts(`${text} ${text}${text}`), [text], 'once each');
  }
});

test('what is found has a right checksum, and what has a wrong one is not found', () => {
  fc.assert(
    fc.property(keys, fc.nat(33), fc.stringMatching(/^[0-9A-Za-z]$/), (key, at, character) => {
      const place = key.length - 34 + at;
      const changed = key.slice(0, place) + character + key.slice(place + 1);
      assert.equal(findKeyTexts(changed), changed === key ? [key] : []);
    }),
    { numRuns: 500 },
  );
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      for (const found of findKeyTexts(text)) assert.ok(keyShard(found) !== undefined);
    }),
  );
});

test('a search gives up after as many as were asked for', () => {
  const texts = Array.from({ length: 10 }, () => makeKeyText('key', 1));
  assert.equal(findKeyTexts(texts.join('\n'), 3), texts.slice(0, 3));
});
