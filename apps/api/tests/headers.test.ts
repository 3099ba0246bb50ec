import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readConfig } from '../../../shared/runtime/config.ts';
import { groups } from '../../../shared/runtime/variables.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

// Headers of answers. tests/helpers/contract.ts checks those that every answer must have, in every test.

const OURS = 'https://app.example.com';
const wanted = { 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'authorization' };
const preflight = { Origin: OURS, ...wanted };

const world = await makeWorld(['verify']);

test('where clients speak TLS, browsers are told to use nothing else, except by what a gateway hands on', async () => {
  const always = 'max-age=31536000';
  for (const program of ['api', 'verify'] as const) {
    const { url } = await world.start(program, { TLS_BY_PROXY: 'true' });
    const answers = [
      await world.call('post', url + VERIFY_PATH, { key: 'k' }),
      await world.call('post', url + VERIFY_PATH, { key: 'k' }, { token: null }),
      await world.call('get', `${url}/docs`),
      await world.call('get', `${url}/nowhere`),
      ...(await speak(url, ['NONSENSE\r\n\r\n'])).answers,
    ];
    for (const { headers, status } of answers)
      assert.is(headers.get('strict-transport-security'), always, `${program} ${status}`);
    if (program === 'api') continue;
    const handedOn = await fetch(`${url}/gateway/envoy`, { headers: { 'X-Keytally-Token': world.team.token } });
    assert.ok(handedOn.status >= 400);
    assert.is(handedOn.headers.get('strict-transport-security'), null);
    assert.is(handedOn.headers.get('x-content-type-options'), 'nosniff');
  }
});

test('no answer lets a web page of another origin in, unless its origin is configured', async () => {
  for (const url of [world.api.url, world.verify!.url]) {
    const answer = await world.call('options', url + VERIFY_PATH, undefined, { headers: preflight });
    assert.is(answer.status, 405);
    const read = await world.call('get', `${url}/healthz`, undefined, { headers: { Origin: OURS } });
    for (const { headers } of [answer, read]) assert.not.match([...headers.keys()].join(), 'access-control', url);
  }
});

test('CORS_ORIGINS lets in pages of these origins only, also to read errors, and never with cookies', async () => {
  const { url } = await world.start('api', { CORS_ORIGINS: `${OURS}, http://localhost:3000` });
  const asked = await fetch(url + VERIFY_PATH, { method: 'OPTIONS', headers: preflight });
  assert.is(asked.status, 204);
  assert.is(asked.headers.get('access-control-allow-origin'), OURS);
  assert.match(asked.headers.get('access-control-allow-methods')!, /\bPATCH\b/);
  const allowed = asked.headers.get('access-control-allow-headers')!;
  assert.match(allowed, /\bAuthorization\b/);
  assert.not.match(allowed, /x-keytally/i, 'no page of another origin uses a session of the console or the portal');
  for (const token of [world.team.token, null]) {
    const options = { token, headers: { Origin: OURS } };
    const { headers } = await world.call('get', `${url}/api/v1/workspace`, undefined, options);
    assert.is(headers.get('access-control-allow-origin'), OURS);
    assert.match(headers.get('access-control-expose-headers')!, /\bX-Request-Id\b/);
    assert.match(headers.get('vary')!, /\bOrigin\b/);
    assert.not.ok(headers.get('access-control-allow-credentials'));
  }
  const others = ['https://evil.example', `${OURS}.evil.example`, `${OURS}:8443`, 'null', OURS.replace('s:', ':')];
  for (const Origin of others) {
    const { headers } = await world.call('get', `${url}/api/v1/workspace`, undefined, { headers: { Origin } });
    assert.not.ok(headers.get('access-control-allow-origin'), Origin);
    assert.match(headers.get('vary')!, /\bOrigin\b/, 'or a cache would give one the answer to the other');
    const options = { headers: { ...preflight, Origin } };
    assert.is((await world.call('options', url + VERIFY_PATH, undefined, options)).status, 405);
  }
});

test('a wrong CORS_ORIGINS stops the program at its start', () => {
  for (const CORS_ORIGINS of ['*', 'app.example.com', `${OURS}/`, `${OURS}, null`, 'javascript:alert(1)']) {
    process.env.CORS_ORIGINS = CORS_ORIGINS;
    assert.throws(() => readConfig(groups.api), /CORS_ORIGINS must name origins/);
  }
  process.env.CORS_ORIGINS = `${OURS}, http://localhost:3000`;
  assert.equal(readConfig(groups.api).CORS_ORIGINS, [OURS, 'http://localhost:3000']);
});
