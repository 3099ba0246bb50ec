import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from './key-text.ts';
import { hideSecrets, holdsSecret } from './secrets.ts';

const jwt = `eyJhbGciOiJFZERTQSJ9.eyJhIjoxfQ.${'c2ln'.repeat(20)}`;
const encode = (text: string) => Array.from(text, (one) => `%${one.charCodeAt(0).toString(16)}`).join('');
const all = [makeKeyText('key', 7), makeKeyText('kt', 63), makeKeyText(`a${'_b'.repeat(15)}`, 0), jwt];

test('keys, tokens and JWTs are hidden anywhere in a text, also side by side, and all else stays', () => {
  for (const secret of all) {
    assert.is(hideSecrets(secret), '[secret]');
    assert.is(hideSecrets(`/a/${secret}?b=${secret}`), '/a/[secret]?b=[secret]');
    assert.ok(holdsSecret(`x${secret}x`));
  }
  for (const text of ['', 'documents:read', 'key_17aT****JpQ1', 'ws_01kafz0000000000000000000', 'a.b.c']) {
    assert.is(hideSecrets(text), text);
    assert.not.ok(holdsSecret(text));
  }
  const [key = '', token = ''] = all;
  assert.is(hideSecrets(`${key}${token}`), '[secret][secret]');
  assert.is(hideSecrets(`${'a'.repeat(40)}${key}`), `${'a'.repeat(40 + 3 - 32)}[secret]`);
});

test('a secret is hidden in any percent-encoding, however often, and all else stays encoded', () => {
  for (const secret of all) {
    const once = encode(secret);
    const more = [once.toUpperCase(), once.replaceAll('%', '%25'), once.replaceAll('%', '%2525'), encode(once)];
    for (const written of [once, ...more, secret.replaceAll(/[_.]/g, encode)]) {
      assert.is(hideSecrets(`/a%2Fb/${written}?c=%20`), '/a%2Fb/[secret]?c=%20', written);
      assert.ok(holdsSecret(written));
    }
  }
  for (const text of ['%', '%%', '%2', '%2525', '100%', '%41%42', '%5Fa', '/%2e%2e/', '%zz%5F'])
    assert.is(hideSecrets(text), text);
  for (const secret of all.slice(0, 3)) {
    for (const often of [`%${'25'.repeat(1_000)}5F`, '%%35%46', '%25%35%46', encode(encode(encode('_')))])
      assert.is(hideSecrets(`/%2F/${secret.replaceAll('_', often)}`), '/%2F/[secret]');
  }
  let text = all[0]!;
  for (let i = 0; i < 7; i++) text = encode(text);
  assert.is(hideSecrets(`/${text}`), '/[secret]');
  assert.is(hideSecrets('/%25ĀB%F0%9F%98%80😀\ud83d'), '/%25ĀB%F0%9F%98%80😀\ud83d');
});
