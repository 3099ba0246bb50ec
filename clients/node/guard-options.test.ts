import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeClient } from './client.ts';
import { verifyInputOf } from './guard-options.ts';
import { fastifyGuard, honoGuard, koaGuard, nodeGuard, type Keytally } from './index.ts';
import { makeClock } from './helpers/clock.ts';

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

test('a wrong cost keeps the program from starting, and is an error where a function gives it', async () => {
  for (const [cost, message] of [
    ['-1', /^cost is "-1"/],
    [undefined, /^cost is undefined \(undefined\); it must be decimal text such as "1" or "0.25"/],
    [null, /^cost is null \(object\)/],
    [{ usage: 1 }, /^cost is 1 \(number\)/],
  ] as const) {
    const isSo = (error: Error) => message.test(error.message);
    assert.throws(() => koaGuard(client, { cost } as never), isSo, String(message));
    const thrown = await inputOf('/', undefined, { cost: () => cost }).catch((error: unknown) => error);
    assert.ok(isSo(thrown as Error), String(message));
  }
  assert.throws(() => koaGuard(client, { outOfCredits: 402 } as never), /^outOfCredits is 402/);
  const open = { size: 0, away: false, keep: () => true, flush: async () => 0 };
  assert.throws(() => koaGuard(client, { hold: { expiresIn: 1 }, open }), /hold is there beside open/);
});

test('a hold and scopes that are there but undefined are sent as null, which keytally refuses', async () => {
  for (const none of [undefined, () => undefined]) {
    const { billing, requestedScopes } = await inputOf('/', undefined, { hold: none, scopes: none });
    assert.equal([billing, requestedScopes], [{ usage: '0', hold: null }, null]);
  }
});

test('a misspelt option keeps the program from starting: a guard with `cots` would let every request pass for free', () => {
  const all = 'the options are cost, hold, scopes, route, ip, idempotencyKey, outOfCredits, refusalBody, open, onError';
  const guards: ((client: Keytally, options: object) => unknown)[] = [nodeGuard, fastifyGuard, koaGuard, honoGuard];
  for (const guard of guards)
    for (const name of ['cots', 'toString'])
      assert.throws(
        () => guard(client, { [name]: '1' }),
        (error: Error) => error.message === `${name} is not an option; ${all}`,
      );
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
  const told = /^keytally guard, request \S+: cost is "abc"; it must be decimal text such as "1" or "0.25"$/;
  assert.match(lines[0]!, told);
});
