import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { dialectOf } from './dialect.ts';
import { readPolicy } from './policy.ts';
import { bearer, openAsking, POLICY } from './helpers/asking.ts';

const asking = await openAsking();

test('a policy sets cost, usage name and scopes, which no header, query or path behind it changes', async () => {
  const { clients, ask } = asking;
  const { id, key, usedCredits } = await asking.newKey();
  const smuggled = {
    'X-Keytally-Usage': '0',
    'X-Keytally-Policy': '-',
    'X-Keytally-Cost': '0',
    'X-Original-URI': '/-/',
  };
  const asked = async (policy: string) =>
    (
      await ask(`plain/${policy}/gateway/plain/-/?usage=0&policy=-&x=/../-/`, {
        headers: { ...bearer(key), ...smuggled },
      })
    ).status;
  for (const policy of ['usage=0.25', 'scope=documents.read', '-', 'name=a%2Cb%3Dc%20%C3%A9,usage=2%2E5'])
    assert.is(await asked(policy), 200, policy);
  for (const scopes of ['documents.read+documents.del', 'none.read', 'documents.read+a%2Fb.c.update'])
    assert.is(await asked(`scope=${scopes}`), 403, scopes);
  assert.is(await usedCredits(), '2.75');
  assert.equal(
    (await asking.eventsOf(id)).map(([name, , costMicros]) => [name, costMicros]),
    [
      ['default', 250_000],
      ['default', 0],
      ['default', 0],
      ['a,b=c é', 2_500_000],
    ],
  );
  assert.is((await ask(`plain/${POLICY}/`, { headers: { ...bearer(clients.keys.noScope), ...smuggled } })).status, 403);
});

test('a wrong policy or dialect is a mistake of the gateway, and the error shows the right form without a secret', async () => {
  const { clients, pass, mistake } = asking;
  const wrong = ['', 'usage', 'usage=', 'usage=-1', 'usage=1e3', 'usage=0.0000001', 'usage=99999999999'];
  wrong.push('usage=1,usage=1', 'cost=1', '-,usage=1', 'usage=1,', 'name=%', 'name=%00', `name=${'x'.repeat(129)}`);
  wrong.push('hold=0', 'hold=86401', 'hold=1.5', 'hold=60,onExpiry=keep', 'onExpiry=charge', 'outOfCredits=402');
  wrong.push('scope=documents', 'scope=documents.write', 'scope=documents.read+', 'scope=.read', 'scope=!.read');
  for (const policy of wrong) {
    await mistake(pass(`plain/${policy}/usage=1/`));
    assert.throws(() => readPolicy(policy), /usage=2,name=tokens,scope=users\.read\+posts\.create/);
  }
  for (const name of ['', 'none', '__proto__', 'NGINX']) {
    await mistake(pass(`${name}/-/`));
    assert.throws(() => dialectOf(name), /nginx, envoy, traefik, caddy, apisix, haproxy, kong, plain/);
  }
  assert.throws(() => readPolicy(clients.good.key), /"\[secret\]" is not a part/);
});

test('a path that two programs may read differently is refused, however it is written, and costs nothing', async () => {
  const { world, clients } = asking;
  const { key, usedCredits } = await asking.newKey();
  const head = `X-Keytally-Token: ${clients.token}\r\nX-Api-Key: ${key}\r\n\r\n`;
  const ask = async (target: string) =>
    (await speak(world.verify.url, [`GET ${target} HTTP/1.1\r\nHost: a\r\n${head}`])).answers[0]!;
  const ambiguous = [
    '/../-/',
    '/../../plain/-/',
    '/..',
    '/.',
    '/./',
    '/a/../../-/',
    '/%2e%2e/-/',
    '/%2E./-/',
    '/.%2e/-/',
  ];
  ambiguous.push('/%252e%252e/-/', '/%2Fa', '/%5ca', '\\a', '/a\\b', '/;/a', '/a/;b/c', '/%25252e%25252e/-/');
  ambiguous.push('/%%32%65%%32%65/-/', '/..%2f-/', '/..%5C-/', '/..\\-/', '/..%252f-/', '/a%2f..%2f..%2f-/');
  ambiguous.push('\\..\\-/', '/..;/-/', '/..%3b/-/', `/%${'25'.repeat(50)}2e./`, `/${nested('.', 9)}./`);
  for (const path of ambiguous) {
    for (const origin of ['', 'HTTP://a@keytally:80']) {
      const { status, text } = await ask(`${origin}/gateway/envoy/${POLICY}${path}`);
      assert.equal([status, text && JSON.parse(text).error.code], [400, 40010], path);
    }
  }
  assert.is((await ask('/gateway/../gateway/envoy/-/')).status, 400);
  for (const dialect of ['haproxy', 'kong', 'nginx']) {
    const originals = ['/reports/../documents', '/reports/42/..%2f..%2fdocuments?q=1', '//a/reports', '/\\a/reports'];
    for (const path of [
      ...originals,
      '/a\\reports',
      '/%2freports',
      '/%5Creports',
      '/;/reports',
      '/a/;b/c',
      '/%252Fa',
    ]) {
      const headers = { ...bearer(key), 'X-Original-URI': path, 'X-Forwarded-Uri': path };
      const { status, text } = await asking.ask(`${dialect}/${POLICY}/`, { headers });
      // nginx passes on 401 and 403 alone.
      if (dialect === 'nginx') assert.is(status, 403);
      else assert.equal([status, JSON.parse(text).error.code], [400, 40010], dialect);
    }
  }
  assert.is(await usedCredits(), '0');
  const plain = ['/...', '/a..', '/..a/', '/.well-known/x', '/a.b/..c', '/%2e%2ea', '/?x=/../-/', '/a;b/c;d', '/a//b'];
  for (const path of [...plain, '/a%2fb%5cc', '//a'])
    assert.is((await ask(`/gateway/envoy/${POLICY}${path}`)).status, 200, path);
});

test('a secret in a path or a usage name is hidden before it is an event, and each dialect records its own path alone', async () => {
  const { ask } = asking;
  const { id, key } = await asking.newKey();
  const [start = '', end = ''] = key.split('_');
  const wanted: [string, string][] = [];
  const pass = async (path: string, headers: object, ...event: [string, string]) => {
    const { status } = await ask(path, { method: 'DELETE', headers: { ...bearer(key), ...headers } });
    assert.is(status, 200, path);
    wanted.push(event);
  };
  for (const text of [
    key,
    `${start}%5F${end}`,
    `${start}%25255f${end}`,
    Array.from(key, (one) => nested(one, 2)).join(''),
  ])
    for (const [dialect, method] of [
      ['plain', 'DELETE'],
      ['nginx', 'GET'],
    ]) {
      const headers = { 'X-Original-Method': 'GET', 'X-Original-URI': `/a%20b/${text}/c` };
      // The name is decoded once as a part of the policy.
      const name = text.length > 100 ? key : encodeURIComponent(text);
      await pass(`${dialect}/name=${name}/a%20b/${text}/c`, headers, '[secret]', `${method} /a%20b/[secret]/c`);
    }
  await pass('plain/-/a%2Fb%41', {}, 'default', 'DELETE /a%2Fb%41');
  const original = { 'X-Original-Method': 'PUT', 'X-Original-URI': '/original?q=1' };
  const forwarded = { 'X-Forwarded-Method': 'PATCH', 'X-Forwarded-Uri': '/forwarded/\u00e9?q=1' };
  for (const [route, dialects] of [
    ['PUT /original', ['nginx', 'haproxy']],
    ['PATCH /forwarded/?', ['traefik', 'caddy', 'apisix', 'kong']],
    ['DELETE /appended', ['envoy', 'plain']],
  ] as const)
    for (const dialect of dialects)
      await pass(`${dialect}/-/appended?q=1`, { ...original, ...forwarded }, 'default', route);
  const events = await asking.eventsOf(id);
  assert.equal(
    events.map(([name, route]) => [name, route]),
    wanted,
  );
});

// A character encoded so often, the digits of each encoding too.
function nested(character: string, times: number): string {
  if (times === 0) return character;
  const digits = character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0');
  return `%${Array.from(digits, (digit) => nested(digit, times - 1)).join('')}`;
}
