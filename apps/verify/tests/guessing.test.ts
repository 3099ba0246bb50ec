import { request as ask } from 'node:http';
import { text } from 'node:stream/consumers';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeKeyText } from '../../../shared/values/key-text.ts';
import { checkAnswer } from '../../../tests/helpers/contract.ts';
import { eventually, makeWorld, wireTo, type World } from '../../../tests/helpers/world.ts';
import { makeCustomers, must, type Customers } from '../../../tests/helpers/customers.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

// Each client in this file has its own address: all of 127.0.0.0/8 is this machine.
const LIMIT = 100;
const PROXY = '127.9.9.9';
let world: World;
let customers: Customers;
const test = suite('guessing tokens');
test.before(async () => {
  const settings = { FAILED_AUTH_PER_MINUTE: String(LIMIT), CALLS_PER_SECOND: '50', TRUSTED_PROXIES: '127.9.9.0/24' };
  world = await makeWorld(['api', 'verify'], settings);
  const workspace = await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }));
  customers = makeCustomers(world, workspace.body.workspace.id);
  await eventually('the token is in force', async () => (await verify({ from: '127.0.0.1' })).status === 200);
});
test.after(() => world?.stop());

test('after a hundred failures in a minute an address gets 429, counted on all servers together', async () => {
  const from = '127.1.0.1';
  const urls = [world.api.url, world.verify!.url];
  const answers = await Promise.all(
    Array.from({ length: 3 * LIMIT }, (_, i) => verify({ from, token: guess(), url: urls[i % 2]! })),
  );
  const codes = answers.map((answer) => answer.code);
  assert.is(codes.filter((code) => code === 40102).length, LIMIT);
  assert.is(codes.filter((code) => code === 42901).length, 2 * LIMIT);
  for (const { status, retryAfter } of answers.filter((answer) => answer.code === 42901)) {
    assert.is(status, 429);
    assert.ok(retryAfter >= 1 && retryAfter <= 60, `Retry-After ${retryAfter}`);
  }
  const none = await verify({ from, token: null });
  assert.is(none.code, 42901, 'no token is a failure too');
  assert.is((await verify({ from: '127.1.0.2', token: guess() })).code, 40102, 'another address is not concerned');
});

test('a valid token passes, whatever others at its address did, and counts as no failure', async () => {
  const from = '127.2.0.1';
  await useUp({ from });
  for (const url of [world.api.url, world.verify!.url]) assert.is((await verify({ from, url })).status, 200);
  const quiet = '127.2.0.2';
  await Promise.all(Array.from({ length: LIMIT + 1 }, () => verify({ from: quiet })));
  assert.is((await verify({ from: quiet, token: guess() })).code, 40102);
});

test('X-Forwarded-For is ignored unless a trusted proxy sent it', async () => {
  const from = '127.3.0.1';
  await useUp({ from, forwardedFor: (i) => `203.0.113.${i}` });
  assert.is((await verify({ from, token: guess(), forwardedFor: '203.0.113.250' })).code, 42901);
  assert.is((await verify({ from: PROXY, token: guess(), forwardedFor: '203.0.113.1' })).code, 40102);
});

test('behind a trusted proxy the last address in X-Forwarded-For counts, not what the client wrote before it', async () => {
  await useUp({ from: PROXY, forwardedFor: (i) => `192.0.2.${i}, 198.51.100.1, 127.9.9.8` });
  assert.is((await verify({ from: PROXY, token: guess(), forwardedFor: '198.51.100.1' })).code, 42901);
  assert.is((await verify({ from: PROXY, token: guess(), forwardedFor: '192.0.2.1' })).code, 40102);
  assert.is((await verify({ from: PROXY, token: guess() })).code, 40102);
});

test('IPv6 addresses of one 64-bit network count as one client', async () => {
  await useUp({ from: PROXY, forwardedFor: (i) => `2001:db8:1:1::${i.toString(16)}` });
  assert.is((await verify({ from: PROXY, token: guess(), forwardedFor: '2001:db8:1:1:ffff::1' })).code, 42901);
  assert.is((await verify({ from: PROXY, token: guess(), forwardedFor: '2001:db8:1:2::1' })).code, 40102);
});

test("a key's allow list is checked against the forwarded address only behind a trusted proxy", async () => {
  const { key } = await customers.newKey({ allowedIPs: ['203.0.113.9'] });
  const status = async (from: string, forwardedFor?: string) => (await verify({ from, key, forwardedFor })).decided;
  for (const [from, forwardedFor, decided] of [
    [PROXY, '203.0.113.9', 'VALID'],
    [PROXY, '198.51.100.1, 203.0.113.9', 'VALID'],
    [PROXY, '203.0.113.9, 198.51.100.1', 'IP_NOT_ALLOWED'],
    [PROXY, undefined, 'IP_NOT_ALLOWED'],
    ['127.4.0.1', '203.0.113.9', 'IP_NOT_ALLOWED'],
    ['127.4.0.1', '203.0.113.9, 127.9.9.9', 'IP_NOT_ALLOWED'],
  ] as const)
    assert.is(await status(from, forwardedFor), decided, `${from} forwards ${forwardedFor}`);
});

test('while Redis is unavailable each process counts by itself', async () => {
  const wire = await wireTo(world.env.REDIS_URL!);
  const alone = await world.start('verify', { REDIS_URL: wire.url });
  await wire.cut();
  const from = '127.5.0.1';
  const noToken = 'kt_none';
  await useUp({ from, url: alone.url, token: noToken });
  assert.is((await verify({ from, url: alone.url, token: noToken })).code, 42901);
  assert.is((await verify({ from, token: noToken })).code, 40102, 'the others know nothing of it');
  await alone.stop();
});

test('management calls of one token are limited per second, verifications are not', async () => {
  // A busy machine may take seconds for them.
  const refused = await eventually('of 200 calls at once some are above 50 a second', async () => {
    const calls = await Promise.all(Array.from({ length: 200 }, () => world.call('get', '/api/v1/workspace?limit=1')));
    const found = calls.filter((answer) => answer.status === 429);
    return found.length > 0 ? found : undefined;
  });
  for (const { body, headers } of refused) assert.equal([body.error.code, headers.get('retry-after')], [42902, '1']);
  const verified = await Promise.all(
    Array.from({ length: 200 }, () => verify({ from: '127.0.0.1', url: world.api.url })),
  );
  assert.ok(verified.every((answer) => answer.status === 200));
  const { token } = await world.newTeam();
  assert.is((await world.call('get', '/api/v1/workspace', undefined, { token })).status, 200, 'another token');
});

test.run();

// Well-formed tokens that nobody created.
const guess = () => makeKeyText('kt', 7);

type Ask = {
  from: string;
  token?: string | null;
  url?: string;
  key?: string;
  forwardedFor?: string | undefined;
};

async function useUp({ forwardedFor, ...rest }: Omit<Ask, 'forwardedFor'> & { forwardedFor?: (i: number) => string }) {
  // At once: they count for a minute, which a busy machine takes for one after the other.
  const answers = await Promise.all(
    Array.from({ length: LIMIT }, (_, i) =>
      verify({ token: guess(), ...rest, ...(forwardedFor && { forwardedFor: forwardedFor(i) }) }),
    ),
  );
  for (const [i, { code }] of answers.entries()) assert.is(code, 40102, `failure ${i + 1}`);
}

/** Sends a verification from one of this machine's addresses. */
async function verify({ from, token = world.team.token, url = world.verify!.url, key = 'none', forwardedFor }: Ask) {
  const headers = {
    'Content-Type': 'application/json',
    ...(token !== null && { Authorization: `Bearer ${token}` }),
    ...(forwardedFor !== undefined && { 'X-Forwarded-For': forwardedFor }),
  };
  return new Promise<{ status: number; code: number; decided: string; retryAfter: number }>((resolve, reject) => {
    const asked = ask(url + VERIFY_PATH, { method: 'POST', headers, localAddress: from }, (response) => {
      text(response).then((body) => {
        const { statusCode = 0, headers } = response;
        checkAnswer(new URL(url).origin, 'POST', VERIFY_PATH, {
          status: statusCode,
          headers: { get: (name) => headers[name] as string | undefined },
          text: body,
        });
        const { error, status, reason } = JSON.parse(body);
        const retryAfter = Number(response.headers['retry-after']);
        resolve({ status: response.statusCode!, code: error?.code, decided: reason ?? status, retryAfter });
      }, reject);
    });
    asked.on('error', reject).end(JSON.stringify({ key }));
  });
}
