import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from '../../../shared/values/key-text.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { eventually, makeWorld, request, type Answer, type World } from '../../../tests/helpers/world.ts';

let world: World;
let customers: Customers;

const test = suite('requests to verify');
test.before(async () => {
  world = await makeWorld(['verify']);
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  customers = makeCustomers(world, workspace.id);
});
test.after(() => world?.stop());

test('bad input is an error that names the field, never a status', async () => {
  const { key } = await customers.newKey({});
  for (const [body, path] of [
    [{}, '/key'],
    [{ key: 1 }, '/key'],
    [{ key, billing: { usage: '-1' } }, '/billing/usage'],
    [{ key, billing: { usage: '0.0000001' } }, '/billing/usage'],
    [{ key, billing: { usage: 'NaN' } }, '/billing/usage'],
    [{ key, billing: { usage: '9000000000.000001' } }, '/billing/usage'],
    [{ key, billing: { usage: 1 } }, '/billing/usage'],
    [{ key, billing: { usagename: 'x' } }, '/billing/usagename'],
    [{ key, ip: 'here' }, '/ip'],
    [{ key, requestedScopes: [{ read: true }] }, '/requestedScopes/0/representation'],
    [{ key, colour: 'red' }, '/colour'],
  ] as const) {
    const answer = await verify(body);
    assert.is(answer.status, 400, answer.text);
    assert.ok(
      answer.body.error.details.some((detail: { path: string }) => detail.path === path),
      answer.text,
    );
    assert.not.ok(answer.text.includes(key));
  }
  const url = world.verify!.url + VERIFY_PATH;
  const { token } = world.team;
  assert.is((await request(url, 'post', { token, raw: '{"key":' })).body.error.code, 40002);
  assert.is((await request(url, 'post', { token, raw: 'x', headers: { 'Content-Type': 'text/plain' } })).status, 415);
  assert.is((await request(url, 'post', { token, raw: JSON.stringify({ key: 'x'.repeat(17_000) }) })).status, 413);
  assert.is((await request(url, 'get', { token })).headers.get('allow'), 'POST');
  assert.is((await request(world.verify!.url + '/nowhere', 'get', { token })).body.error.code, 40401);
});

test('calls beyond the limit of waiting calls get 503 at once and cost nothing; the others are decided', async () => {
  const narrow = await world.start('verify', { VERIFY_MAX_WAITING: '2' });
  const { key, meter } = await customers.meteredKey('1000');
  const url = narrow.url;
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => verify({ key, billing: { usage: '1' } }, world.team.token, url)),
  );
  const decided = answers.filter((answer) => answer.body.status === 'VALID');
  const refused = answers.filter((answer) => answer.body.error?.code === 50308);
  assert.is(decided.length + refused.length, 200, answers.map((answer) => answer.text).join('\n'));
  assert.ok(decided.length > 0 && refused.length > 0, `${decided.length} decided`);
  assert.is(refused[0]!.headers.get('retry-after'), '1');
  assert.is((await customers.billing(meter)).usedCredits, String(decided.length));
});

test('only a token with key:verify gets an answer', async () => {
  const { key } = await customers.newKey({});
  assert.is((await verify({ key }, null)).body.error.code, 40101);
  assert.is((await verify({ key }, 'kt_nonsense')).body.error.code, 40102);
  assert.is((await verify({ key }, makeKeyText('kt', 3))).body.error.code, 40102);
  assert.is((await verify({ key }, key)).body.error.code, 40102);
  const reader = await world.newToken(world.team.id, ['key:read', 'key:write']);
  await settle(reader);
  assert.is((await verify({ key }, reader)).body.error.code, 40301);
});

test('the probes and the OpenAPI document need no token', async () => {
  assert.is((await verify({ key: (await customers.newKey()).key })).body.status, 'VALID');
  for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json']) {
    const answer = await request(world.verify!.url + path, 'get', {});
    assert.is(answer.status, 200, `${path} ${answer.text}`);
  }
  assert.match(
    (await request(`${world.verify!.url}/metrics`, 'get', {})).text,
    /keytally_verifications_total\{.*status="VALID".*\} \d+/,
  );
});

test.run();

function verify(body: object, token: string | null = world.team.token, url = world.verify!.url): Promise<Answer> {
  return customers.verify(body, { token, url });
}

// The test wrote the token into Postgres itself: this waits until the sweeper has copied it to Redis.
async function settle(token: string): Promise<void> {
  await eventually('it is in force', async () => (await verify({ key: '' }, token)).status !== 401);
}
