import * as assert from 'uvu/assert';
import { bearer, type Setting, type Test } from './setting.ts';

// HAProxy's HTTP client takes 101 headers with its own.
const MANY = 97;

/** An end client may send a header as often as it likes. */
export function testHeaders(test: Test, setting: Setting): void {
  test('a request with many keys is refused, and the gateway goes on', async () => {
    const { clients, gateway, api } = setting;
    const { key } = clients.good;
    const passes = async () => (await gateway.send('/documents', { headers: bearer(key) })).status;
    for (const name of ['x-api-key', 'Authorization']) {
      const prefix = name === 'x-api-key' ? '' : 'Bearer ';
      const different = Array.from({ length: MANY }, (_, i) => `${prefix}key_${i}`);
      const last = [...Array<string>(MANY - 1).fill(`${prefix}${key}`), `${prefix}${clients.keys.poor}`];
      for (const values of [different, last]) {
        // Some gateways refuse so many headers themselves, or repeated Authorization.
        const { status } = await gateway.send('/documents', { headers: { [name]: values } });
        assert.ok(status >= 400, `${MANY} lines of ${name}: ${status}`);
      }
      assert.is(api.reached.length, 0, name);
      assert.is(await passes(), 200, name);
      api.reached.length = 0;
    }
  });
  test('an end client cannot make its check request too large and pass, nor end the gateway by it', async () => {
    const { clients, gateway, api } = setting;
    const key = bearer(clients.good.key);
    const before = await clients.usedCredits();
    for (const length of [7_000, 12_000, 14_500, 15_500, 15_900, 16_500]) {
      const long = 'x'.repeat(length);
      const half = long.slice(0, length / 2);
      for (const [path, headers] of [
        [`/documents/${long}`, key],
        ['/documents', { ...key, 'x-api-key': [long, 'y'] }],
        [`/documents/${half}`, { ...key, 'x-api-key': half }],
        ['/documents', { Authorization: [`Bearer ${half}`, `Bearer ${half}y`] }],
      ] as const) {
        const { status } = await gateway.send(path, { headers: headers as Record<string, string | string[]> });
        const mayPass = headers === key && status === 200;
        assert.ok(mayPass || status >= 400, `${length}: ${status}`);
      }
    }
    assert.is((await gateway.send('/documents', { headers: key })).status, 200);
    // The API may refuse what the gateway let pass: then it was debited and did not reach a handler.
    assert.ok((await clients.usedCredits()) >= before + api.reached.length, 'what reached the API was debited');
  });
}
