import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { bitsOf, LEAST_BITS, whyNoSecret } from './guessable.ts';
import { makeKeyText } from './key-text.ts';

test('random keys of the usual forms have at least 64 bits, and what a person or a counter makes has fewer', () => {
  // Always the same random bytes.
  const bytes = (i: number, length: number) => createHash('shake256', { outputLength: length }).update(`${i}`).digest();
  for (let i = 0; i < 5_000; i++) {
    for (const text of [
      bytes(i, 16).toString('hex'),
      bytes(i, 20).toString('base64'),
      `sk-${bytes(i, 18).toString('base64url')}`,
      `sk_live_${bytes(i, 18).toString('base64url')}`,
    ])
      assert.ok(bitsOf(text) >= LEAST_BITS, `${text} ${bitsOf(text)}`);
  }
  for (const text of [randomUUID(), makeKeyText('acme', 3), `AKIA${randomBytes(32).toString('hex')}`])
    assert.ok(bitsOf(text) >= LEAST_BITS, text);
  const weak = `password1 Password123! correct-horse-battery-staple key-000000000000001 aaaaaaaaaaaaaaaaaaaaaaaa
    1234567890123456789012 abcdefghijklmnopqrstuvwxyz abababababababababababab customer_42 sk_live_a1B2c3D4
    my-secret-api-key-for-production TestAcmeCompany2024 20261129104500`;
  for (const text of weak.split(/\s+/)) assert.ok(bitsOf(text) < LEAST_BITS, `${text} ${bitsOf(text)}`);
});

test('a reference or a placeholder is no secret', () => {
  const wrong = `\${ANON_KEY} $SUPABASE_SERVICE_KEY {vault://env/my-key} REPLACE_WITH_ROTATABLE_SECRET_1 <api-key> {{env.KEY}}
    %API_KEY% changeme-please your-api-key-here ******** xxxxxxxxxxxx`;
  for (const text of [...wrong.split(/\s+/), '$(cat key)', '{{ env.KEY }}']) assert.ok(whyNoSecret(text), text);
  for (const text of ['$2b$10$N9qo8uLOickgx2ZMRZoMye', 'sk-replace1', 'xkcd-936', makeKeyText('key', 3)])
    assert.not.ok(whyNoSecret(text), text);
});
