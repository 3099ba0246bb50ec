import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { findKeyTexts } from './find-key-texts.ts';
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

test('the worst text costs no more than in proportion to its length', () => {
  const worst = [
    '_',
    '_0',
    '_00',
    `_${'0'.repeat(33)}`,
    `_${'0'.repeat(34)}`,
    `${'a'.repeat(32)}_${'0'.repeat(34)}`,
    `${'a'.repeat(32)}_00${'1'.repeat(32)}`,
    '%5F',
    'a',
    '0',
  ];
  for (const part of worst) {
    const [short, long] = [cpuOf(part, 16_384), cpuOf(part, 16 * 16_384)];
    // Sixteen times the text: 256 times the time if it were quadratic.
    assert.ok(long < 64 * Math.max(short, 0.2), `${part.slice(0, 40)}: ${short} and ${long} ms`);
  }
});

/** The least CPU time of some searches, in milliseconds. */
function cpuOf(part: string, length: number): number {
  const text = part.repeat(Math.ceil(length / part.length)).slice(0, length);
  let least = Infinity;
  for (let run = 0; run < 5; run++) {
    const started = process.cpuUsage();
    findKeyTexts(text);
    const { user, system } = process.cpuUsage(started);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}
