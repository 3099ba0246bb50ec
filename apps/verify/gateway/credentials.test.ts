import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../tests/helpers/customers.ts';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { bearer, openAsking, POLICY, type Asking } from './helpers/asking.ts';

let asking: Asking;
const test = suite('keys, tokens and addresses at the gateway endpoint');
test.before(async () => void (asking = await openAsking()));
test.after(() => asking?.stop());

test('a key may come in each of three ways; no key, two keys and repeated headers with two keys are refused', async () => {
  const { world, clients, ask } = asking;
  const { key } = clients.good;
  const other = clients.keys.poor;
  const basic = (text: string) => ({ Authorization: `Basic ${btoa(text)}` });
  const ways = [
    bearer(key),
    { 'X-Api-Key': key },
    basic(`${key}:`),
    basic(`:${key}`),
    { ...bearer(key), 'x-api-key': key },
  ];
  for (const headers of ways) assert.is((await ask(`plain/${POLICY}/`, { headers })).status, 200);
  const wrong: [Record<string, string>, number][] = [
    [{}, 40110],
    [{ Authorization: 'Bearer' }, 40110],
    [{ Authorization: `Digest ${key}` }, 40110],
    [{ ...bearer(key), 'X-Api-Key': other }, 40111],
    [basic(`${key}:${other}`), 40111],
    [bearer(`${key} ${key}`), 40112],
    [bearer('\u00e9'.repeat(40)), 40112],
    [{ 'X-Api-Key': 'x'.repeat(8_000) }, 40112],
  ];
  for (const [headers, code] of wrong) {
    const { status, error } = await ask(`plain/${POLICY}/?api_key=${key}`, { headers });
    assert.equal([status, error?.code], [401, code], JSON.stringify(headers));
  }
  for (const [name, prefix] of [
    ['Authorization', 'Bearer '],
    ['X-Api-Key', ''],
  ]) {
    for (const [second, expected] of [
      [other, 40111],
      [key, 200],
    ] as const) {
      const lines = [key, second].map((one) => `${name}: ${prefix}${one}\r\n`).join('');
      const head = `GET /gateway/plain/-/ HTTP/1.1\r\nHost: a\r\nX-Keytally-Token: ${clients.token}\r\n${lines}\r\n`;
      const [answer] = (await speak(world.verify!.url, [head])).answers;
      const code = answer!.text ? JSON.parse(answer!.text).error.code : answer!.status;
      assert.is(code, expected, `two of ${name}`);
    }
  }
});

test('a gateway must send an access token with key:verify; its end clients read nothing of a wrong one', async () => {
  const { world, clients, ask, pass, mistake } = asking;
  const { customers, good } = clients;
  const before = await clients.usedCredits();
  const narrow = { name: 'reader', permissions: ['key:read'] };
  const reader = (await must(201, world.call('post', '/api/v1/access-token', narrow))).body.accessToken.token;
  const unknown = /access token \(X-Keytally-Token\) is unknown, expired or revoked/;
  for (const [token, cause] of [
    [null, /must set X-Keytally-Token/],
    ['', /must set X-Keytally-Token/],
    ['kt_nobody', unknown],
    [good.key, unknown],
    [reader, /access token \(X-Keytally-Token\) lacks the permission key:verify/],
  ] as const) {
    await mistake(() => pass(`plain/${POLICY}/`, { token, headers: { 'X-Api-Key': good.key } }), cause);
  }
  // nginx turns 401 and 403 into the refusal of a key; 500 it turns into 503.
  await mistake(() => pass(`nginx/${POLICY}/`, { token: 'kt_nobody' }), unknown);
  assert.is(await clients.usedCredits(), before);
  const elsewhere = (await must(201, world.call('post', '/api/v1/workspace', { name: 'o' }))).body.workspace.id;
  const foreign = { name: 'k', workspaceId: elsewhere };
  const { key } = (await must(201, world.call('post', '/api/v1/api-key', foreign))).body.apiKey;
  assert.is((await ask('plain/-/', { headers: bearer(key) })).error?.code, 40112, 'not of its workspaces');
  assert.is((await customers.verify({ key })).body.status, 'VALID');
});

test('an address counts only in the header of its dialect, and only from a trusted proxy', async () => {
  const { clients, ask } = asking;
  // The same program, which trusts this machine as a proxy.
  const behind = await asking.world.start('verify', { TRUSTED_PROXIES: '127.0.0.1' });
  const at = (dialect: string, headers: Record<string, string>, to?: string) =>
    ask(`${dialect}/-/`, { headers: { ...bearer(clients.keys.local), ...headers }, ...(to && { to }) });
  for (const dialect of ['plain', 'envoy', 'traefik', 'caddy', 'apisix', 'kong', 'nginx', 'haproxy']) {
    const [own, others] = /nginx|haproxy/.test(dialect)
      ? ['X-Real-IP', 'X-Forwarded-For']
      : ['X-Forwarded-For', 'X-Real-IP'];
    for (const address of ['203.0.113.9', '2001:db8::1']) {
      assert.is((await at(dialect, { [own]: address }, behind.url)).status, 200, `${dialect} ${address}`);
      assert.is((await at(dialect, { [others]: address }, behind.url)).status, 403, `${dialect}, another's header`);
      assert.is((await at(dialect, { [own]: address })).status, 403, `${dialect}, from anybody`);
    }
  }
  const made = '203.0.113.9, 198.51.100.1';
  assert.is((await at('plain', { 'X-Forwarded-For': made }, behind.url)).error?.code, 40311, 'the last one counts');
});

test.run();
