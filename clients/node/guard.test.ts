// What cases.json says of all guards is tried there, in each framework; here what breaks in the Node client alone.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { identityOf, keytally, nodeGuard } from './index.ts';

const client = keytally({ url: 'http://keytally', token: 'x', fetch: () => Promise.reject(new Error()) });

test('of no key, two keys and text that is no key none passes, and keytally is not asked', async () => {
  for (const [headers, rawHeaders, code] of [
    [{}, [], 40110],
    [{ authorization: 'Bearer a', 'x-api-key': 'b' }, [], 40111],
    [{ authorization: `Basic ${btoa('a:b')}` }, [], 40111],
    [{ 'x-api-key': ['a', 'b'] }, [], 40111],
    // Of several Authorization headers Node shows the first alone.
    [{ authorization: 'Bearer a' }, ['Authorization', 'Bearer a', 'AUTHORIZATION', 'Bearer b'], 40111],
    [{ 'x-api-key': 'x'.repeat(513) }, [], 40112],
  ] as const) {
    let body = '';
    const response = { statusCode: 200, setHeader() {}, end: (text: string) => void (body = text) };
    const request = { method: 'GET', url: '/', headers, rawHeaders, socket: {} };
    await nodeGuard(client)(request as never, response, () => assert.unreachable('it passed'));
    assert.equal([response.statusCode, JSON.parse(body).error.code], [401, code], JSON.stringify(headers));
  }
  assert.throws(() => identityOf({}), /no keytally guard/);
});
