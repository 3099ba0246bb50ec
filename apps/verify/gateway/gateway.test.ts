import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { hearOutput, makeCustomers, must, newWorkspace, wireTo } from '../../../tests/helpers/world.ts';
import { bearer, openAsking, POLICY } from './helpers/asking.ts';

const { world, clients, ask, pass, mistake, newKey } = await openAsking();

test('every method gets the same answer, and a body is ignored and does not end the connection', async () => {
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    const { status, headers } = await pass(`plain/${POLICY}/`, { method });
    assert.equal([status, headers.get('x-keytally-status')], [200, 'VALID'], method);
  }
  const refused = await ask('plain/-/', { method: 'HEAD' });
  assert.equal([refused.status, refused.text], [401, '']);

  const head = `POST /gateway/plain/-/ HTTP/1.1\r\nHost: a\r\nX-Keytally-Token: ${clients.token}\r\nX-Api-Key: ${clients.good.key}\r\n`;
  const large = 'GET / HTTP/1.1\r\n\r\n'.repeat(100_000);
  const sized = `${head}Content-Type: application/json\r\nContent-Length: ${large.length}\r\n\r\n${large}`;
  const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n3\r\n{"x\r\n0\r\n\r\n`;
  const last = `${head}Content-Length: 0\r\n\r\n`;
  const { answers, open } = await speak(world.verify.url, [sized, chunked, last], { answers: 3 });
  assert.equal([answers.map((answer) => answer.status), open], [[200, 200, 200], true]);
});

test('a check that declares a body and sends none ends its connection: no length steers what is read next', async () => {
  const head = (policy: string, rest: string) =>
    `GET /gateway/plain/${policy}/ HTTP/1.1\r\nHost: a\r\n${rest}X-Keytally-Token: ${clients.token}\r\nX-Api-Key: ${clients.good.key}\r\n`;
  const steered = 'GET /gateway/plain/-/ HTTP/1.1';
  const next = `${head(POLICY, `X-Note: ${steered}\r\n`)}\r\n`;
  const declared = [`Content-Length: ${next.indexOf(steered)}`, 'Content-Length: 30', 'Transfer-Encoding: chunked'];
  for (const body of declared) {
    const socket = connect(Number(new URL(world.verify.url).port), '127.0.0.1').on('error', () => {});
    socket.write(`${head('-', '')}${body}\r\n\r\n`);
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(String(answer), /^HTTP\/1.1 200 .*^connection: close/ims, body);
    const after = new Promise((done) =>
      socket.once('data', (bytes) => done(String(bytes))).once('close', () => done('')),
    );
    socket.write(next);
    assert.is(await after, '', body);
  }
});

test("a gateway's retry is debited once by X-Keytally-Idempotency-Key alone", async () => {
  const { key, usedCredits } = await newKey();
  const once = { ...bearer(key), 'X-Keytally-Idempotency-Key': 'gateway-1' };
  for (let i = 0; i < 3; i++) assert.is((await ask(`plain/${POLICY}/`, { headers: once })).status, 200);
  assert.is(await usedCredits(), '1');
  await mistake(ask('plain/usage=2/', { headers: once }));
  const made = { ...bearer(key), 'X-Request-Id': 'mine', 'Idempotency-Key': 'mine', 'X-Idempotency-Key': 'mine' };
  for (let i = 0; i < 2; i++) {
    const { headers } = await ask(`plain/${POLICY}/`, { headers: made });
    assert.is(headers.get('x-request-id'), 'mine');
  }
  assert.is(await usedCredits(), '3');
});

test('while keytally cannot decide, requests are refused with 503, never let through', async () => {
  const wire = await wireTo(world.env.REDIS_URL!);
  const cut = await world.start('verify', { REDIS_URL: wire.url, VERIFY_DEADLINE_MS: '250' });
  await wire.cut();
  for (const dialect of ['plain', 'nginx']) {
    const { status, headers, text } = await pass(`${dialect}/-/`, { to: cut.url });
    assert.equal([status, JSON.parse(text).error.code], [503, 50311], text);
    assert.ok(headers.get('retry-after'));
  }
});

test('a key may come in each of three ways; no key, two keys and repeated headers with two keys are refused', async () => {
  const { key } = clients.good;
  const other = clients.keys.poor;
  const basic = (text: string) => ({ Authorization: `Basic ${btoa(text)}` });
  const cases: [Record<string, string>, number][] = [
    [bearer(key), 200],
    [{ 'X-Api-Key': key }, 200],
    [basic(`${key}:`), 200],
    [basic(`:${key}`), 200],
    [{ ...bearer(key), 'x-api-key': key }, 200],
    [{}, 40110],
    [{ Authorization: 'Bearer' }, 40110],
    [{ Authorization: `Digest ${key}` }, 40110],
    [{ ...bearer(key), 'X-Api-Key': other }, 40111],
    [basic(`${key}:${other}`), 40111],
    [bearer(`${key} ${key}`), 40112],
    [bearer('\u00e9'.repeat(40)), 40112],
    [{ 'X-Api-Key': 'x'.repeat(8_000) }, 40112],
  ];
  for (const [headers, expected] of cases) {
    const { status, error } = await ask(`plain/${POLICY}/?api_key=${key}`, { headers });
    assert.is(error?.code ?? status, expected, JSON.stringify(headers));
  }
  for (const [name, prefix] of Object.entries({ Authorization: 'Bearer ', 'X-Api-Key': '' })) {
    for (const [second, expected] of Object.entries({ [other]: 40111, [key]: 200 })) {
      const lines = [key, second].map((one) => `${name}: ${prefix}${one}\r\n`).join('');
      const head = `GET /gateway/plain/-/ HTTP/1.1\r\nHost: a\r\nX-Keytally-Token: ${clients.token}\r\n${lines}\r\n`;
      const [answer] = (await speak(world.verify.url, [head])).answers;
      const code = answer!.text ? JSON.parse(answer!.text).error.code : answer!.status;
      assert.is(code, expected, `two of ${name}`);
    }
  }
});

test('a gateway must send an access token with key:verify; the log alone says what is wrong with another one', async () => {
  const narrow = { name: 'reader', permissions: ['key:read'] };
  const reader = (await must(201, world.call('post', '/api/v1/access-token', narrow))).body.accessToken.token;
  for (const token of [null, '', 'kt_nobody', clients.good.key, reader])
    await mistake(pass(`plain/${POLICY}/`, { token }));
  // nginx turns 401 and 403 into the refusal of a key; 500 it turns into 503.
  await mistake(pass(`nginx/${POLICY}/`, { token: 'kt_nobody' }));
  // One line a second is written: the first mistake that a process sees.
  const fresh = await world.start('verify');
  const output = hearOutput();
  await mistake(pass(`plain/${POLICY}/`, { token: 'kt_nobody', to: fresh.url }));
  assert.match(output(), /access token \(X-Keytally-Token\) is unknown.*a gateway is set up wrongly/);
  const { key } = await makeCustomers(world, await newWorkspace(world)).newKey();
  assert.is((await ask('plain/-/', { headers: bearer(key) })).error?.code, 40112, 'not of its workspaces');
});

test('an address counts only in the header of its dialect, and only from a trusted proxy', async () => {
  // The same program, which trusts this machine as a proxy.
  const behind = await world.start('verify', { TRUSTED_PROXIES: '127.0.0.1' });
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
