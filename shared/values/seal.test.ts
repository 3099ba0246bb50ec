import { randomBytes } from 'node:crypto';
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { deriveKey, makeSealer, seal, unseal } from './seal.ts';

const master = randomBytes(32);
const key = deriveKey(master, 'test');

test('a sealed text opens only with its own key and in its own place', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string(), fc.string(), (text, place, other) => {
      const sealed = seal(key, text, place);
      assert.is(unseal(key, sealed, place), text);
      assert.is.not(sealed.toString('hex'), seal(key, text, place).toString('hex'), 'never the same twice');
      assert.throws(() => unseal(deriveKey(master, 'other'), sealed, place));
      if (other !== place) assert.throws(() => unseal(key, sealed, other));
    }),
  );
});

test('a sealed text with one bit changed does not open', () => {
  const sealed = seal(key, 'text', 'place');
  for (let i = 0; i < sealed.length * 8; i++) {
    const changed = Buffer.from(sealed);
    changed[i >> 3]! ^= 1 << (i & 7);
    assert.throws(() => unseal(key, changed, 'place'), undefined, `bit ${i}`);
  }
  for (const length of [0, 5, 27]) assert.throws(() => unseal(key, sealed.subarray(0, length), 'place'));
});

test("a derived key depends on the master key, the purpose and the caller's secret", () => {
  const keys = [
    deriveKey(master, 'a'),
    deriveKey(master, 'b'),
    deriveKey(master, 'a', 'secret'),
    deriveKey(master, 'a', 'other secret'),
    deriveKey(randomBytes(32), 'a'),
  ];
  assert.is(new Set(keys.map((derived) => derived.toString('hex'))).size, keys.length);
  assert.equal(deriveKey(master, 'a', 'secret'), keys[2]);
});

test('an earlier master key still opens its texts, and the current one seals new texts', () => {
  const [old, fresh] = [randomBytes(32), randomBytes(32)];
  const before = makeSealer([old], 'test');
  const overlap = makeSealer([fresh, old], 'test');
  const after = makeSealer([fresh], 'test');
  const sealed = before.seal('text', 'place');
  assert.is(overlap.unseal(sealed, 'place'), 'text');
  assert.is(after.unseal(overlap.seal('text', 'place'), 'place'), 'text');
  assert.throws(() => after.unseal(sealed, 'place'));
  assert.throws(() => overlap.unseal(sealed, 'other place'));
  assert.throws(() => makeSealer([fresh, old], 'test', 'a secret').unseal(sealed, 'place'));
  assert.is(overlap.keyName, after.keyName);
  assert.is.not(overlap.keyName, before.keyName);
});
