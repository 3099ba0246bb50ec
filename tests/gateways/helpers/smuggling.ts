import * as assert from 'uvu/assert';
import { END_CLIENT } from './gateway.ts';
import { bearer, newestEvent, type Cases } from './setting.ts';

const readDocuments = [{ representation: 'documents', read: true }];
// Some gateways take 101 headers with their own.
const MANY = 97;
const identity = ['Key-Id', 'Workspace-Id', 'Customer-Id', 'Meter-Id', 'Status', 'Remaining-Credits'];

/** No end client can give itself, or take away, the identity that the API sees; and nothing that it sends decides about money or rights. */
export const smuggling: Cases = {
  async 'no end client can send an identity or a token to the API, in any spelling of the names'(setting) {
    const { clients, gateway, api } = setting;
    const { key, id } = await clients.customers.newKey({ scopes: readDocuments });
    const names = [...identity, 'Token', 'Idempotency-Key'].map((name) => `X-Keytally-${name}`);
    // CGI and WSGI take "_" and "-" in the name of a header for the same.
    const spellings = names.flatMap((name) => [
      name,
      name.replaceAll('-', '_'),
      name.replace('X-Keytally-', 'X-Keytally_'),
    ]);
    const spoofed = Object.fromEntries(spellings.map((name) => [name, 'spoofed']));
    const { status } = await gateway.send('/documents', { headers: { ...bearer(key), ...spoofed } });
    assert.is(status, 200);
    const { headers } = api.reached[0]!;
    assert.is(headers['x-keytally-key-id'], id);
    assert.not.match(JSON.stringify(headers), /spoofed/);
    assert.not.match(JSON.stringify(headers), clients.token);
    for (const name of ['customer-id', 'meter-id', 'remaining-credits'])
      assert.not.ok(headers[`x-keytally-${name}`], name);
  },

  async 'an end client cannot remove identity headers by naming them in Connection'(setting) {
    const { clients, gateway, api } = setting;
    const names = ['token', 'idempotency-key', 'key-id', 'customer-id'].map((name) => `X-Keytally-${name}`);
    const headers = { ...bearer(clients.good.key), Connection: names.join(', ') };
    const before = await clients.usedCredits();
    for (let i = 0; i < 2; i++) {
      assert.is((await gateway.send('/documents', { headers })).status, 200);
      const { headers: received } = api.reached[i]!;
      const told = ['key-id', 'customer-id'].map((name) => received[`x-keytally-${name}`]);
      assert.equal(told, [clients.good.id, 'cus%20acm%C3%A9']);
    }
    assert.is(await clients.usedCredits(), before + 2);
  },

  async 'no header, query or path of an end client decides about cost, scope, token, route or repetition'(setting) {
    const { clients, gateway, api } = setting;
    const before = await clients.usedCredits();
    const smuggled = {
      'X-Keytally-Token': 'kt_spoofed',
      'X-Keytally-Idempotency-Key': 'always the same',
      'X-Keytally-Policy': '-',
      'X-Original-Method': 'DELETE',
      'X-Original-URI': '/spoofed',
      'X-Forwarded-Method': 'DELETE',
      'X-Forwarded-Uri': '/spoofed',
      'X-Request-Id': 'always the same',
      'Idempotency-Key': 'always the same',
    };
    for (const method of ['PATCH', 'GET', 'GET']) {
      const sent = { method, headers: { ...bearer(clients.good.key), ...smuggled } };
      assert.is((await gateway.send('/documents/1?usage=0&policy=-&scope=', sent)).status, 200);
      const { c, n, r } = await newestEvent(setting, clients.good.key);
      assert.equal([c, n, r], [1_000_000, 'requests', `${method} /documents/1`]);
    }
    assert.is(await clients.usedCredits(), before + 3);
    const noScope = { headers: { ...bearer(clients.keys.noScope), ...smuggled } };
    for (const path of ['/documents', '/..%2f-/', '/../-/', '/../../-/?x=/gateway/plain/-/'])
      assert.not.equal((await gateway.send(path, noScope)).status, 200, path);
    assert.is(api.reached.length, 3);
  },

  async 'allow lists are checked against the address that the gateway saw, not against what its client says'(setting) {
    const { clients, gateway } = setting;
    const { key } = await clients.customers.newKey({ scopes: readDocuments, allowedIPs: [END_CLIENT] });
    assert.is((await gateway.send('/documents', { headers: bearer(key) })).status, 200);
    for (const header of ['X-Forwarded-For', 'X-Real-IP', 'X-Envoy-External-Address', 'Forwarded']) {
      const headers = { ...bearer(clients.keys.local), [header]: '203.0.113.9' };
      assert.is((await gateway.send('/documents', { headers })).status, 403, header);
    }
  },

  async 'a request with many keys is refused, and the gateway goes on'({ clients, gateway, api }) {
    const { key } = clients.good;
    for (const name of ['x-api-key', 'Authorization']) {
      const prefix = name === 'x-api-key' ? '' : 'Bearer ';
      const different = Array.from({ length: MANY }, (_, i) => `${prefix}key_${i}`);
      const last = [...Array<string>(MANY - 1).fill(`${prefix}${key}`), `${prefix}${clients.keys.poor}`];
      for (const values of [different, last]) {
        // Some gateways refuse so many headers themselves, or repeated Authorization.
        const { status } = await gateway.send('/documents', { headers: { [name]: values } });
        assert.ok(status >= 400, `${MANY} lines of ${name}: ${status}`);
      }
    }
    assert.is(api.reached.length, 0);
    assert.is((await gateway.send('/documents', { headers: bearer(key) })).status, 200);
  },

  async 'an end client cannot make its check request too large and pass, nor end the gateway by it'(setting) {
    const { clients, gateway, api } = setting;
    const key = bearer(clients.good.key);
    const before = await clients.usedCredits();
    for (const length of [7_000, 14_500, 16_500]) {
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
  },
};
