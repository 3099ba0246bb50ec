import { request as ask } from 'node:http';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { makeKeyText } from '../../../shared/values/key-text.ts';
import { checkAnswer } from '../../../tests/helpers/contract.ts';
import { makeWorld, wireTo } from '../../../tests/helpers/world.ts';

// Each client in this file has its own address: all of 127.0.0.0/8 is this machine.
const LIMIT = 100;
const PROXY = '127.9.9.9';
const settings = { FAILED_AUTH_PER_MINUTE: String(LIMIT), CALLS_PER_SECOND: '2', TRUSTED_PROXIES: '127.9.9.0/24' };
const world = await makeWorld(['api', 'verify'], settings);

test('after so many failures in a minute an address gets 429, counted on all servers together; a valid token passes', async () => {
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
  assert.is((await verify({ from, token: null })).code, 42901, 'no token is a failure too');
  assert.is((await verify({ from: '127.1.0.2', token: guess() })).code, 40102, 'another address is not concerned');
  for (const url of urls) assert.is((await verify({ from, url })).status, 200, 'whatever others at its address did');
  const quiet = '127.2.0.2';
  await Promise.all(Array.from({ length: LIMIT + 1 }, () => verify({ from: quiet })));
  assert.is((await verify({ from: quiet, token: guess() })).code, 40102, 'what succeeds is no failure');
});

test('the address is what a trusted proxy says, for IPv6 its network of 64 bits', async () => {
  for (const [proxy, forwardedFor, same, other] of [
    ['127.3.0.1', (i: number) => `203.0.113.${i}`, '203.0.113.250', undefined],
    [PROXY, (i: number) => `192.0.2.${i}, 198.51.100.1, 127.9.9.8`, '198.51.100.1', '192.0.2.1'],
    [PROXY, (i: number) => `2001:db8:1:1::${i.toString(16)}`, '2001:db8:1:1:ffff::1', '2001:db8:1:2::1'],
  ] as const) {
    await useUp({ from: proxy, forwardedFor });
    assert.is((await verify({ from: proxy, token: guess(), forwardedFor: same })).code, 42901, same);
    if (other) assert.is((await verify({ from: proxy, token: guess(), forwardedFor: other })).code, 40102, other);
  }
});

test('while Redis is unavailable each process counts by itself', async () => {
  const wire = await wireTo(world.env.REDIS_URL!);
  const alone = await world.start('verify', { REDIS_URL: wire.url });
  await wire.cut();
  const from = '127.5.0.1';
  const token = 'kt_none';
  await useUp({ from, url: alone.url, token });
  assert.is((await verify({ from, url: alone.url, token })).code, 42901);
  assert.is((await verify({ from, token })).code, 40102, 'the others know nothing of it');
});

test('management calls of one token are limited per second, verifications are not', async () => {
  const calls = await Promise.all(Array.from({ length: 100 }, () => world.call('get', '/api/v1/workspace?limit=1')));
  const refused = calls.filter((answer) => answer.status === 429);
  assert.ok(refused.length > 0, 'of 100 calls at once some are above 2 a second');
  for (const { body, headers } of refused) assert.equal([body.error.code, headers.get('retry-after')], [42902, '1']);
  const verified = Array.from({ length: 100 }, () => verify({ from: '127.0.0.1', url: world.api.url }));
  assert.ok((await Promise.all(verified)).every((answer) => answer.status === 200));
  const { token } = await world.newTeam();
  assert.is((await world.call('get', '/api/v1/workspace', undefined, { token })).status, 200, 'another token');
});

// Well-formed tokens that nobody created.
const guess = () => makeKeyText('kt', 7);

type Ask = { from: string; token?: string | null; url?: string; forwardedFor?: string | undefined };

async function useUp({ forwardedFor, ...rest }: Omit<Ask, 'forwardedFor'> & { forwardedFor?: (i: number) => string }) {
  // At once: they count for a minute.
  const tries = Array.from({ length: LIMIT }, (_, i) =>
    verify({ token: guess(), ...rest, forwardedFor: forwardedFor?.(i) }),
  );
  const answers = await Promise.all(tries);
  for (const [i, { code }] of answers.entries()) assert.is(code, 40102, `failure ${i + 1}`);
}

async function verify({ from, token = world.team.token, url = world.verify!.url, forwardedFor }: Ask) {
  const headers = {
    'Content-Type': 'application/json',
    ...(token !== null && { Authorization: `Bearer ${token}` }),
    ...(forwardedFor !== undefined && { 'X-Forwarded-For': forwardedFor }),
  };
  return new Promise<{ status: number; code: number; retryAfter: number }>((resolve, reject) => {
    const asked = ask(url + VERIFY_PATH, { method: 'POST', headers, localAddress: from }, (response) => {
      text(response).then((body) => {
        const { statusCode = 0, headers } = response;
        checkAnswer(new URL(url).origin, 'POST', VERIFY_PATH, {
          status: statusCode,
          headers: { get: (name) => headers[name] as string | undefined },
          text: body,
        });
        const { error } = JSON.parse(body);
        const retryAfter = Number(headers['retry-after']);
        resolve({ status: statusCode, code: error?.code, retryAfter });
      }, reject);
    });
    asked.on('error', reject).end('{"key":"none"}');
  });
}
