import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeClient } from './client.ts';
import { verifyInputOf } from './guard-options.ts';
import { fastifyGuard, honoGuard, keepUsage, koaGuard, nodeGuard, type Keytally } from './index.ts';
import { makeClock } from './helpers/clock.ts';
import { rateLimitHeaders } from './refusal.ts';

const clock = makeClock();
const client = makeClient({ url: 'http://127.0.0.1:1', token: 'x' }, clock);

const inputOf = (url: string, ip?: string, options: object = {}) =>
  verifyInputOf('k', options, {}, { method: 'GET', url, ip, header: () => undefined });

test('a long route without a "/" to cut at is cut all the same', async () => {
  assert.is((await inputOf('/', undefined, { route: 'a'.repeat(2_000) })).route?.length, 1024);
});

test('what is no address allows nothing but a list of all addresses', async () => {
  const addressOf = async (ip: string | undefined) => (await inputOf('/', ip)).ip;
  for (const ip of ['203.0.113.9', '::1', '2001:DB8::1', '::ffff:203.0.113.9']) assert.is(await addressOf(ip), ip);
  const wrong = ['::1]@[::1', '::1]:80/[', '::1]#', '[::1]', '::1%eth0', '::1\n', ' ::1', '1::2::3'];
  for (const ip of [...wrong, '203.0.113.9:80', '203.0.113', ':', '', undefined])
    assert.is(await addressOf(ip), '0.0.0.0', String(ip));
});

test('an option that is wrong from the start keeps the program from starting, and one that a function gives is an error', async () => {
  for (const [options, message] of [
    [{ cost: '-1' }, /^cost is "-1"/],
    [{ cost: undefined }, /^cost is undefined \(undefined\); it must be decimal text such as "1" or "0.25"/],
    [{ cost: null }, /^cost is null \(object\)/],
    [{ cost: { usage: 1 } }, /^cost is 1 \(number\)/],
    [{ hold: { expiresIn: 0 } }, /^hold.expiresIn is 0/],
    [{ scopes: undefined }, /^scopes is undefined \(undefined\); it must be a list such as/],
    [{ scopes: 'documents' }, /^scopes is "documents"/],
    [{ route: undefined }, /^route is undefined \(undefined\); it must be text/],
  ] as const) {
    const isSo = (error: Error) => message.test(error.message);
    assert.throws(() => koaGuard(client, options as never), isSo, String(message));
    const [name, value] = Object.entries(options)[0]!;
    const thrown = await inputOf('/', undefined, { [name]: () => value }).catch((error: unknown) => error);
    assert.ok(isSo(thrown as Error), String(message));
  }
  const others = [{ outOfCredits: undefined }, { refusalBody: 'problem+json' }, { idempotencyKey: 'a' }];
  for (const options of others)
    assert.throws(() => koaGuard(client, options as never), /^(outOfCredits|refusalBody|idempotencyKey) is /);
  const open = { size: 0, away: false, keep: () => true, flush: async () => 0 };
  assert.throws(() => koaGuard(client, { hold: { expiresIn: 1 }, open }), /hold is there beside open/);
});

test('a misspelt option keeps the program from starting: a guard with `cots` would let every request pass for free', () => {
  const all = 'the options are cost, hold, scopes, route, ip, idempotencyKey, outOfCredits, refusalBody, open, onError';
  const guards: ((client: Keytally, options: object) => unknown)[] = [nodeGuard, fastifyGuard, koaGuard, honoGuard];
  for (const guard of guards) {
    throws(() => guard(client, { cots: '0.25' }), `cots is not an option; ${all}`);
    throws(() => guard(client, { toString: '1' }), `toString is not an option; ${all}`);
  }
  const kept = { onLost() {}, atmost: 1 };
  const message = 'keepUsage(): atmost is not an option; the options are onLost, atMost';
  throws(() => keepUsage(client, kept), message);
});

test('the headers of a rate limit tell what remains, and when it begins anew', () => {
  const rateLimit = { limit: 5, remaining: 3, resetAt: 1_001, windowSeconds: 60 };
  const rest = {
    'RateLimit-Policy': '"key";q=5;w=60',
    'X-RateLimit-Limit': '5',
    'X-RateLimit-Remaining': '3',
    'X-RateLimit-Reset': '2',
  };
  assert.equal(rateLimitHeaders(rateLimit, 1_000), { RateLimit: '"key";r=3;t=1', ...rest });
  assert.equal(rateLimitHeaders(rateLimit, 5_000), { RateLimit: '"key";r=3;t=0', ...rest });
  assert.equal(rateLimitHeaders(undefined, 0), {});
});

test('without onError the cause is on the console, at most one line a second', async () => {
  const lines: string[] = [];
  const output = globalThis.console;
  const { error } = output;
  output.error = (line: string) => void lines.push(line);
  try {
    const guard = nodeGuard(client, { cost: () => 'abc' });
    const request = { method: 'GET', url: '/', headers: { 'x-api-key': 'key_x' }, socket: {} };
    for (const ms of [0, 0, 999, 1]) {
      clock.pass(ms);
      const response = { statusCode: 200, setHeader() {}, end() {} };
      await guard(request, response, () => assert.unreachable());
      assert.is(response.statusCode, 500);
    }
  } finally {
    output.error = error;
  }
  assert.is(lines.length, 2);
  assert.match(
    lines[0]!,
    /^keytally guard, request \S+: cost is "abc"; it must be decimal text such as "1" or "0.25"$/,
  );
  assert.match(lines[1]!, /\(and 2 more since the last line\)$/);
});

function throws(make: () => unknown, message: string): void {
  assert.throws(make, (error: Error) => error.message === message, message);
}
