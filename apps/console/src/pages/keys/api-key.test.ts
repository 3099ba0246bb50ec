import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { changedIn } from './api-key.ts';

test('an edit of a key gives on what it changes alone, and keeps a list that allows every address', () => {
  const key = { name: 'a', rateLimitPerSecond: 5, allowedIPs: ['10.0.0.1', '10.1.0.0/16'] };
  const same = { name: 'a', expiresAt: undefined, rateLimitPerSecond: 5, allowedIPs: '10.0.0.1, 10.1.0.0/16' };
  const empty = { ...same, allowedIPs: null };
  assert.equal(changedIn(key, same), {});
  assert.equal(changedIn(key, { ...empty, expiresAt: null }), { expiresAt: null, allowedIPs: null });
  assert.equal(changedIn({ ...key, allowedIPs: [] }, { ...empty, name: 'b' }), { name: 'b' });
  const more = { ...same, rateLimitPerSecond: null, allowedIPs: '10.0.0.1 10.0.0.2' };
  assert.equal(changedIn(key, more), { rateLimitPerSecond: null, allowedIPs: ['10.0.0.1', '10.0.0.2'] });
});
