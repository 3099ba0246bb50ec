import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from './key-text.ts';
import { hideSecrets, holdsSecret } from './secrets.ts';

const test = suite("secrets in clients' texts");
const jwt = `eyJhbGciOiJFZERTQSJ9.eyJhIjoxfQ.${'c2ln'.repeat(20)}`;
const all = [makeKeyText('key', 7), makeKeyText('kt', 63), makeKeyText(`a${'_b'.repeat(15)}`, 0), jwt];

test('keys, tokens and JWTs are hidden anywhere in a text, and all else stays', () => {
  for (const secret of all) {
    assert.is(hideSecrets(secret), '[secret]');
    assert.is(hideSecrets(`/a/${secret}?b=${secret}`), '/a/[secret]?b=[secret]');
    assert.ok(holdsSecret(`x${secret}x`));
  }
  for (const text of ['', 'documents:read', 'key_17aT****JpQ1', 'ws_01kafz0000000000000000000', 'a.b.c']) {
    assert.is(hideSecrets(text), text);
    assert.not.ok(holdsSecret(text));
  }
});

test('searching a long text takes no quadratic time', () => {
  for (const text of ['_'.repeat(2_000_000), 'eyJ'.repeat(700_000), 'a.'.repeat(1_000_000)])
    assert.is(hideSecrets(text), text);
});

test.run();
