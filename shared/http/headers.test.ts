import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from '../values/key-text.ts';
import { requestId } from './headers.ts';

test('a request id is returned and logged as the client sent it, unless it holds a secret', () => {
  assert.is(requestId('4bf92f3577b34da6a3ce929d0e0e4736'), '4bf92f3577b34da6a3ce929d0e0e4736');
  const jwt = `eyJhbGciOiJFZERTQSJ9.eyJhIjoxfQ.${'c2ln'.repeat(20)}`;
  for (const secret of [makeKeyText('key', 7), makeKeyText('kt', 63), makeKeyText(`a${'_b'.repeat(15)}`, 0), jwt]) {
    const made = requestId(`id-${secret}`.slice(0, 128));
    assert.not.ok(made.includes(secret.slice(-20)), made);
    assert.ok(made.length > 20, 'there is one all the same');
  }
});
