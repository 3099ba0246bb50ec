import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from './key-text.ts';
import { requestId } from '../http/request-id.ts';
import { hideSecrets, holdsSecret } from './secrets.ts';

const test = suite('secrets in texts of clients');
const jwt = `eyJhbGciOiJFZERTQSJ9.eyJhIjoxfQ.${'c2ln'.repeat(20)}`;
const all = [makeKeyText('key', 7), makeKeyText('kt', 63), makeKeyText(`a${'_b'.repeat(15)}`, 0), jwt];

test('keys, tokens and JWTs are hidden wherever they stand; all else stays', () => {
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

test('a request id is echoed and logged as it was given, unless it holds a secret', () => {
  assert.is(requestId('4bf92f3577b34da6a3ce929d0e0e4736'), '4bf92f3577b34da6a3ce929d0e0e4736');
  for (const secret of all) {
    const made = requestId(`id-${secret}`.slice(0, 128));
    assert.not.ok(made.includes(secret.slice(-20)), made);
    assert.ok(made.length > 20, 'there is one all the same');
  }
});

test('a long text takes no time that grows with its square', () => {
  for (const text of ['_'.repeat(2_000_000), 'eyJ'.repeat(700_000), 'a.'.repeat(1_000_000)])
    assert.is(hideSecrets(text), text);
});

test.run();
