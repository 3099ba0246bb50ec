import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { speak } from '../../../tests/helpers/raw-http.ts';
import { wireTo } from '../../../tests/helpers/world.ts';
import { openAsking, POLICY, type Asking } from './helpers/asking.ts';

let asking: Asking;
const test = suite('the gateway endpoint');
test.before(async () => void (asking = await openAsking()));
test.after(() => asking?.stop());

test('every method gets the same answer, and a body is ignored and does not end the connection', async () => {
  const { world, clients, ask, pass } = asking;
  for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    const { status, headers } = await pass(`plain/${POLICY}/`, { method });
    assert.equal([status, headers.get('x-keytally-status')], [200, 'VALID'], method);
  }
  const refused = await ask('plain/-/', { method: 'HEAD' });
  assert.equal([refused.status, refused.text], [401, '']);

  const head = (name: string) =>
    `POST /gateway/${name}/-/ HTTP/1.1\r\nHost: a\r\nX-Keytally-Token: ${clients.token}\r\nX-Api-Key: ${clients.good.key}\r\n`;
  const large = 'GET / HTTP/1.1\r\n\r\n'.repeat(100_000);
  for (const dialect of ['plain', 'envoy', 'traefik']) {
    const sized = `${head(dialect)}Content-Type: application/json\r\nContent-Length: ${large.length}\r\n\r\n${large}`;
    const chunked = `${head(dialect)}Transfer-Encoding: chunked\r\n\r\n3\r\n{"x\r\n0\r\n\r\n`;
    const last = `${head(dialect)}Content-Length: 0\r\n\r\n`;
    const { answers, open } = await speak(world.verify!.url, [sized, chunked, last], { answers: 3 });
    assert.equal([answers.map((answer) => answer.status), open], [[200, 200, 200], true]);
  }
});

test("a gateway's retry is debited once by X-Keytally-Idempotency-Key alone", async () => {
  const { clients, pass, mistake } = asking;
  const before = await clients.usedCredits();
  const once = { 'X-Keytally-Idempotency-Key': 'gateway-1' };
  for (let i = 0; i < 3; i++) assert.is((await pass(`plain/${POLICY}/`, { headers: once })).status, 200);
  assert.is(await clients.usedCredits(), before + 1);
  await mistake(() => pass('plain/usage=2/', { headers: once }), /already used for a different request/);
  const made = { 'X-Request-Id': 'mine', 'Idempotency-Key': 'mine', 'X-Idempotency-Key': 'mine' };
  for (let i = 0; i < 2; i++) {
    const { headers } = await pass(`plain/${POLICY}/`, { headers: made });
    assert.is(headers.get('x-request-id'), 'mine');
  }
  assert.is(await clients.usedCredits(), before + 3);
});

test('while keytally cannot decide, requests are refused with 503, never let through', async () => {
  const { world, pass } = asking;
  const wire = await wireTo(world.env.REDIS_URL!);
  const cut = await world.start('verify', { REDIS_URL: wire.url, VERIFY_DEADLINE_MS: '250' });
  await wire.cut();
  for (const dialect of ['plain', 'nginx']) {
    const { status, headers, text } = await pass(`${dialect}/-/`, { to: cut.url });
    assert.equal([status, JSON.parse(text).error.code], [503, 50311], text);
    assert.ok(headers.get('retry-after'));
  }
});

test('it is in the OpenAPI document and counted in the metrics', async () => {
  const { world } = asking;
  const { paths } = (await (await fetch(`${world.verify!.url}/openapi.json`)).json()) as any;
  const { responses } = paths['/gateway/{dialect}/{policy}/{path}'].get;
  assert.equal(Object.keys(responses), ['200', '400', '401', '403', '408', '429', '431', '500', '503']);
  const metrics = await (await fetch(`${world.verify!.url}/metrics`)).text();
  assert.match(
    metrics,
    /keytally_http_request_seconds_count\{[^}]*method="GET",route="\/gateway\/",status="200"[^}]*\} \d/,
  );
});

test.run();
