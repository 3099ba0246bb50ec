import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { dialectNames } from './dialect.ts';
import { readPolicy } from './policy.ts';
import { bearer, openAsking, POLICY, type Asking } from './helpers/asking.ts';

let asking: Asking;
const test = suite("policies in a gateway's address");
test.before(async () => void (asking = await openAsking()));
test.after(() => asking?.stop());

test('a policy sets cost, usage name and scopes; a wrong one is a 500, and the log shows the right form', async () => {
  const { clients, pass, mistake } = asking;
  const { good } = clients;
  const before = await clients.usedCredits();
  for (const policy of ['usage=0.25', 'scope=documents.read', '-', 'name=a%2Cb%3Dc%20%C3%A9,usage=2%2E5']) {
    assert.is((await pass(`plain/${policy}/x`)).status, 200, policy);
  }
  assert.is(await clients.usedCredits(), before + 2.75);
  assert.is((await asking.newestEvent(good.key)).n, 'a,b=c é');
  const scopes = ['scope=documents.read+documents.del', 'scope=none.read', 'scope=documents.read+a%2Fb.c.update'];
  for (const policy of scopes) assert.is((await pass(`plain/${policy}/`)).error?.code, 40310, policy);

  const wrong = [
    '',
    'usage',
    'usage=',
    'usage=-1',
    'usage=1e3',
    'usage=0.0000001',
    'usage=99999999999',
    'usage=1,usage=1',
  ];
  wrong.push('cost=1', '-,usage=1', 'usage=1,', 'name=%', 'name=%00', `name=${'x'.repeat(129)}`, 'scope=documents');
  wrong.push('hold=0', 'hold=86401', 'hold=1.5', 'hold=60,onExpiry=keep', 'onExpiry=charge');
  wrong.push('scope=documents.write', 'scope=documents.read+', 'scope=.read', 'scope=!.read');
  for (const policy of wrong) {
    const { status, error } = await pass(`plain/${policy}/usage=1/`);
    assert.equal([status, error?.code], [500, 50002], policy);
    assert.throws(() => readPolicy(policy), /usage=2,name=tokens,scope=users\.read\+posts\.create/);
  }
  await mistake(() => pass('plain/cost=1/'), /usage=2,name=tokens,scope=users\.read\+posts\.create/);
  for (const path of ['', 'none/-/', '__proto__/-/', 'NGINX/-/']) {
    await mistake(() => pass(path), /nginx, envoy, traefik, caddy, apisix, haproxy, kong, plain/);
  }
  await mistake(() => pass(`plain/${good.key}/`), /\[secret\]\\" is not a part/);
  assert.is(await clients.usedCredits(), before + 2.75);
});

test('no header, query or path behind the policy decides about money or rights', async () => {
  const { clients, ask, pass } = asking;
  const before = await clients.usedCredits();
  const smuggled = {
    'X-Keytally-Usage': '0',
    'X-Keytally-Policy': '-',
    'X-Keytally-Cost': '0',
    'X-Original-URI': '/-/',
  };
  const path = `plain/${POLICY}/gateway/plain/-/?usage=0&policy=-&x=/../-/`;
  assert.is((await pass(path, { headers: smuggled })).status, 200);
  assert.is(await clients.usedCredits(), before + 1);
  assert.is((await ask(path, { headers: { ...bearer(clients.keys.noScope), ...smuggled } })).status, 403);
});

test('a path that two programs may read differently is refused, however it is written, and costs nothing', async () => {
  const { world, clients } = asking;
  const before = await clients.usedCredits();
  const head = `X-Keytally-Token: ${clients.token}\r\nX-Api-Key: ${clients.good.key}\r\n\r\n`;
  const ask = async (target: string) =>
    (await speak(world.verify!.url, [`GET ${target} HTTP/1.1\r\nHost: a\r\n${head}`])).answers[0]!;
  const cheap = [
    ['/../-/', '/../../plain/-/', '/..', '/.', '/./', '/a/../../-/', '/%2e%2e/-/', '/%2E./-/', '/.%2e/-/'],
    [
      '/%252e%252e/-/',
      '/%2Fa',
      '/%5ca',
      '\\a',
      '/a\\b',
      '/;/a',
      '/a/;b/c',
      '/%25252e%25252e/-/',
      '/%%32%65%%32%65/-/',
      '/..%2f-/',
      '/..%5C-/',
      '/..\\-/',
      '/..%252f-/',
    ],
    ['/a%2f..%2f..%2f-/', '\\..\\-/', '/..;/-/', '/..%3b/-/', `/%${'25'.repeat(50)}2e./`, `/${nested('.', 9)}./`],
  ].flat();
  for (const path of cheap) {
    for (const origin of ['', 'http://keytally', 'HTTP://a@keytally:80']) {
      const { status, text } = await ask(`${origin}/gateway/envoy/${POLICY}${path}`);
      assert.equal([status, text && JSON.parse(text).error.code], [400, 40010], path);
    }
  }
  assert.is((await ask('/gateway/../gateway/envoy/-/')).status, 400);
  for (const dialect of ['haproxy', 'kong', 'traefik', 'caddy', 'apisix', 'nginx']) {
    const spelled = [
      '//a/reports',
      '/\\a/reports',
      '/a\\reports',
      '/%2freports',
      '/%5Creports',
      '/;/reports',
      '/a/;b/c',
      '/%252Fa',
    ];
    for (const path of ['/reports/../documents', '/reports/42/..%2f..%2fdocuments?q=1', ...spelled]) {
      const headers = { ...bearer(clients.good.key), 'X-Original-URI': path, 'X-Forwarded-Uri': path };
      const { status, text } = await asking.ask(`${dialect}/${POLICY}/`, { headers });
      // nginx passes on 401 and 403 alone.
      if (dialect === 'nginx') assert.is(status, 403);
      else assert.equal([status, JSON.parse(text).error.code], [400, 40010], dialect);
    }
  }
  assert.is(await clients.usedCredits(), before);
  for (const path of [
    '/...',
    '/a..',
    '/..a/',
    '/.well-known/x',
    '/a.b/..c',
    '/%2e%2ea',
    '/?x=/../-/',
    '/a;b/c;d',
    '/a//b',
    '/a%2fb%5cc',
    '//a',
  ]) {
    assert.is((await ask(`/gateway/envoy/${POLICY}${path}`)).status, 200, path);
  }
});

test('a secret in a path or a usage name is hidden before it is an event, however it is encoded', async () => {
  const { clients, pass } = asking;
  const { key } = clients.good;
  const [start = '', end = ''] = key.split('_');
  const written = [key, `${start}%5F${end}`, `${start}%5f${end}`, `${start}%255F${end}`, `${start}%25255f${end}`];
  written.push(Array.from(key, (one) => nested(one, 1)).join(''), Array.from(key, (one) => nested(one, 2)).join(''));
  for (const text of written) {
    for (const dialect of ['plain', 'nginx']) {
      const headers = { 'X-Original-Method': 'GET', 'X-Original-URI': `/a%20b/${text}/c` };
      // The name is decoded once as a part of the policy.
      const name = text.length > 100 ? key : encodeURIComponent(text);
      assert.is((await pass(`${dialect}/name=${name}/a%20b/${text}/c`, { headers })).status, 200);
      const { n, r } = await asking.newestEvent(key);
      assert.equal([n, r], ['[secret]', 'GET /a%20b/[secret]/c'], `${dialect} ${text}`);
    }
  }
  assert.is((await pass('plain/-/a%2Fb%41', {})).status, 200);
  assert.is((await asking.newestEvent(key)).r, 'GET /a%2Fb%41', 'a path without a secret stays as it was sent');
});

test('each dialect takes method and path from its own headers alone, and records them without the query', async () => {
  const { clients, pass } = asking;
  const original = { 'X-Original-Method': 'PUT', 'X-Original-URI': '/original?q=1' };
  const forwarded = { 'X-Forwarded-Method': 'PATCH', 'X-Forwarded-Uri': '/forwarded/\u00e9?q=1' };
  const seen: Record<string, string> = {
    nginx: 'PUT /original',
    haproxy: 'PUT /original',
    traefik: 'PATCH /forwarded/?',
    caddy: 'PATCH /forwarded/?',
    apisix: 'PATCH /forwarded/?',
    kong: 'PATCH /forwarded/?',
    envoy: 'DELETE /appended',
    plain: 'DELETE /appended',
  };
  for (const [dialect, route] of Object.entries(seen)) {
    const options = { method: 'DELETE', headers: { ...original, ...forwarded } };
    assert.is((await pass(`${dialect}/-/appended?q=1`, options)).status, 200);
    assert.is((await asking.newestEvent(clients.good.key)).r, route, dialect);
  }
});

test('every example on the page has right policies with costs and scopes of their own', async () => {
  const { clients, ask, pass } = asking;
  const page = readFileSync(new URL('../../../docs/gateways.md', import.meta.url), 'utf8');
  const addresses = [...page.matchAll(/\/gateway\/([a-z]+)\/(usage=[^\s'"`/]+)/g)];
  const policies = Map.groupBy(addresses, ([, dialect]) => dialect);
  assert.equal(new Set(policies.keys()), new Set(dialectNames));
  for (const [dialect = '', examples] of policies) {
    const costs = examples.map(([, , policy = '']) => policy.split(',', 1).join()).toSorted();
    const holds = ['nginx', 'haproxy', 'envoy'].includes(dialect) ? ['usage=10'] : [];
    assert.equal(costs, dialect === 'plain' ? ['usage=1'] : ['usage=1', ...holds, 'usage=5'], dialect);
  }
  for (const [address] of addresses) {
    assert.is((await pass(`${address.slice('/gateway/'.length)}/`)).status, 200, address);
    const noScope = await ask(address.slice('/gateway/'.length), { headers: bearer(clients.keys.noScope) });
    assert.is(noScope.status, 403, address);
  }
});

test.run();

// A character encoded so often, the digits of each encoding too.
function nested(character: string, times: number): string {
  if (times === 0) return character;
  const digits = character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0');
  return `%${Array.from(digits, (digit) => nested(digit, times - 1)).join('')}`;
}
