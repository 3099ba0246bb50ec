import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isAmbiguousPath } from '../../../shared/values/percent.ts';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { dialectOf } from './dialect.ts';
import { readPolicy } from './policy.ts';
import { bearer, openAsking, POLICY } from './helpers/asking.ts';

const { world, clients, ask, pass, mistake, newKey, eventsOf } = await openAsking();

test('a policy sets cost, usage name and scopes, which no header, query or path behind it changes', async () => {
  const { id, key, usedCredits } = await newKey();
  const costs = { 'X-Keytally-Usage': '0', 'X-Keytally-Cost': '0' };
  const smuggled = { ...costs, 'X-Keytally-Policy': '-', 'X-Original-URI': '/-/' };
  const asked = async (policy: string) => {
    const path = `plain/${policy}/gateway/plain/-/?usage=0&policy=-&x=/../-/`;
    return (await ask(path, { headers: { ...bearer(key), ...smuggled } })).status;
  };
  for (const policy of ['usage=0.25', 'scope=documents.read', '-', 'name=a%2Cb%3Dc%20%C3%A9,usage=2%2E5'])
    assert.is(await asked(policy), 200, policy);
  for (const scopes of ['documents.read+documents.del', 'none.read', 'documents.read+a%2Fb.c.update'])
    assert.is(await asked(`scope=${scopes}`), 403, scopes);
  assert.is(await usedCredits(), '2.75');
  const told = (await eventsOf(id)).map(([name, , costMicros]) => `${name} ${costMicros}`);
  assert.equal(told, ['default 250000', 'default 0', 'default 0', 'a,b=c é 2500000']);
  assert.is((await ask(`plain/${POLICY}/`, { headers: { ...bearer(clients.keys.noScope), ...smuggled } })).status, 403);
});

test('a wrong policy or dialect is a mistake of the gateway, and the error shows the right form without a secret', async () => {
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

const ambiguous = String.raw`/../-/ /../../plain/-/ /.. /. /./ /a/../../-/ /%2e%2e/-/ /%2E./-/ /.%2e/-/ /%252e%252e/-/ /%2Fa /%5ca \a
  /a\b /;/a /a/;b/c /%25252e%25252e/-/ /%%32%65%%32%65/-/ /..%2f-/ /..%5C-/ /..\-/ /..%252f-/ /a%2f..%2f..%2f-/ \..\-/ /..;/-/
  /..%3b/-/ /%${'25'.repeat(50)}2e./`;
const plain = '/... /a.. /..a/ /.well-known/x /a.b/..c /%2e%2ea /a;b/c;d /a//b /a%2fb%5cc';

test('a path that two programs may read differently is refused, however it is written, and costs nothing', async () => {
  const { key, usedCredits } = await newKey();
  const at = `/gateway/envoy/${POLICY}`;
  // Verify looks at both.
  const isAmbiguous = (path: string) => isAmbiguousPath(path) || isAmbiguousPath(at + path);
  for (const path of ambiguous.split(/\s+/)) assert.ok(isAmbiguous(path), path);
  for (const path of plain.split(' ')) assert.not(isAmbiguous(path), path);
  const head = `Host: a\r\nX-Keytally-Token: ${clients.token}\r\nX-Api-Key: ${key}\r\n\r\n`;
  const askRaw = async (target: string) =>
    (await speak(world.verify.url, [`GET ${target} HTTP/1.1\r\n${head}`])).answers[0]!;
  const whole = [`HTTP://a@keytally:80${at}/%2e%2e/-/`, '/gateway/../gateway/envoy/-/'];
  for (const target of [`${at}/../-/`, `${at}/%2Fa`, ...whole]) {
    const { status, text } = await askRaw(target);
    assert.equal([status, JSON.parse(text).error.code], [400, 40010], target);
  }
  for (const path of ['/reports/../documents', '/reports/42/..%2f..%2fdocuments?q=1', '//a/reports', '/\\a/reports']) {
    const headers = { ...bearer(key), 'X-Original-URI': path, 'X-Forwarded-Uri': path };
    for (const dialect of ['haproxy', 'kong'])
      assert.is((await ask(`${dialect}/${POLICY}/`, { headers })).error?.code, 40010, `${dialect} ${path}`);
    // nginx passes on 401 and 403 alone.
    assert.is((await ask(`nginx/${POLICY}/`, { headers })).status, 403);
  }
  assert.is(await usedCredits(), '0');
  for (const path of ['/a.b/..c?x=/../-/', '//a']) assert.is((await askRaw(at + path)).status, 200, path);
});

test('a secret in a path or a usage name is hidden before it is an event, and each dialect records its own path alone', async () => {
  const { id, key } = await newKey();
  const wanted: [string, string][] = [];
  const passed = async (path: string, headers: object, ...event: [string, string]) => {
    const { status } = await ask(path, { method: 'DELETE', headers: { ...bearer(key), ...headers } });
    assert.is(status, 200, path);
    wanted.push(event);
  };
  for (const text of [key, key.replaceAll('_', '%5F'), key.replaceAll('_', '%25255f')])
    for (const [dialect, method] of Object.entries({ plain: 'DELETE', nginx: 'GET' })) {
      const headers = { 'X-Original-Method': 'GET', 'X-Original-URI': `/a%20b/${text}/c` };
      // The name is decoded once as a part of the policy.
      const name = encodeURIComponent(text);
      await passed(`${dialect}/name=${name}/a%20b/${text}/c`, headers, '[secret]', `${method} /a%20b/[secret]/c`);
    }
  await passed('plain/-/a%2Fb%41', {}, 'default', 'DELETE /a%2Fb%41');
  const original = { 'X-Original-Method': 'PUT', 'X-Original-URI': '/original?q=1' };
  const forwarded = { 'X-Forwarded-Method': 'PATCH', 'X-Forwarded-Uri': '/forwarded/\u00e9?q=1' };
  for (const [route, dialects] of [
    ['PUT /original', ['nginx', 'haproxy']],
    ['PATCH /forwarded/?', ['traefik', 'caddy', 'apisix', 'kong']],
    ['DELETE /appended', ['envoy', 'plain']],
  ] as const)
    for (const dialect of dialects)
      await passed(`${dialect}/-/appended?q=1`, { ...original, ...forwarded }, 'default', route);
  const events = (await eventsOf(id)).map(([name, route]) => [name, route]);
  assert.equal(events, wanted);
});
