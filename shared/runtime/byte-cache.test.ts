import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeByteCache } from './byte-cache.ts';

test('a cache never holds more bytes than it may, and forgets what was used longest ago', () => {
  const cache = makeByteCache<number>(1_000);
  for (let i = 0; i < 100; i++) {
    cache.set(`key-${i}`, i, 90);
    assert.is(cache.get('key-0'), 0, 'it is used all the time');
    assert.ok(cache.bytes() <= 1_000);
  }
  assert.equal([cache.get('key-99'), cache.get('key-1'), cache.bytes()], [99, undefined, 990]);
  cache.set('key-99', -1, 10);
  assert.equal([cache.get('key-99'), cache.bytes()], [-1, 910]);
  cache.set('large', 1, 1_001);
  assert.equal([cache.get('large'), cache.bytes()], [undefined, 910]);
});
