// What cases.json says of all guards is tried there, in each framework; here what breaks in the Node client alone.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeClient } from './client.ts';
import { makeClock } from './helpers/clock.ts';
import { identityOf, nodeGuard } from './index.ts';

/** What `onError` was told of the newest request. */
let errors: string[] = [];
const asked: string[] = [];
let answer: () => Promise<Response>;
let clock = makeClock();
test.before.each(() => {
  asked.length = 0;
});

/** A client with a time of its own: cancels, which last longer than their requests, let it pass. */
function newClient() {
  clock = makeClock();
  return makeClient({ url: 'http://keytally', token: 'x', fetch: keytally }, clock);
}

function keytally(url: unknown): Promise<Response> {
  asked.push(String(url).split('/').at(-1)!);
  return answer();
}

test('of no key, two keys and text that is no key none passes, and keytally is not asked', async () => {
  for (const [headers, rawHeaders, code] of [
    [{}, [], 40110],
    [{ authorization: 'Digest a' }, [], 40110],
    [{ authorization: 'Bearer a', 'x-api-key': 'b' }, [], 40111],
    [{ authorization: `Basic ${btoa('a:b')}` }, [], 40111],
    [{ 'x-api-key': ['a', 'b'] }, [], 40111],
    // Of several Authorization headers Node shows the first alone.
    [{ authorization: 'Bearer a' }, ['Authorization', 'Bearer a', 'AUTHORIZATION', 'Bearer b'], 40111],
    [{ 'x-api-key': 'x'.repeat(513) }, [], 40112],
  ] as const)
    assert.equal(await ask(headers as Headers, rawHeaders), [401, code], JSON.stringify(headers));
  assert.equal(asked, []);
});

test('while keytally answers errors, nothing, or cannot be reached, requests are refused with 503, and cancelled', async () => {
  for (const [answers, said] of [
    [
      async () => new Response('<h1>', { status: 502 }),
      'HTTP 502, but the answer is not from keytally; check the address',
    ],
    [() => Promise.reject(new Error('ECONNREFUSED')), 'keytally cannot be reached at http://keytally'],
    [() => late(), 'keytally did not answer in time'],
  ] as const) {
    asked.length = 0;
    answer = answers;
    assert.equal(await ask({ 'x-api-key': 'a', 'x-request-id': 'req-1' }), [503, 50311]);
    assert.is(errors[0], `keytally guard, request req-1: ${said}`);
    assert.ok(asked.includes('cancel'), asked.join());
  }
});

test('a request that a handler answers while it is verified stays answered, and there is no identity without a guard', async () => {
  answer = async () => Response.json({ status: 'VALID' });
  const response = { statusCode: 201, headersSent: true, setHeader() {}, end: () => assert.unreachable() };
  const request = { method: 'GET', url: '/', headers: { 'x-api-key': 'a' }, socket: {} };
  await nodeGuard(newClient())(request, response, () => assert.unreachable());
  assert.is(response.statusCode, 201);
  assert.throws(() => identityOf({}), /no keytally guard/);
});

/** An answer that comes when the attempt is given up. */
function late(): Promise<Response> {
  clock.pass(1_000);
  return new Promise(() => {});
}

type Headers = Record<string, string | string[]>;

/** The status of a refusal, and its code. */
async function ask(headers: Headers, rawHeaders: readonly string[] = []): Promise<[number, number]> {
  const told: string[] = (errors = []);
  const guard = nodeGuard(newClient(), { cost: '1', onError: (error) => told.push(error.message) });
  let body = '';
  const response = { statusCode: 200, setHeader() {}, end: (text: string) => void (body = text) };
  const request = { method: 'GET', url: '/', headers, rawHeaders, socket: {} };
  await guard(request, response, () => assert.unreachable('it passed'));
  return [response.statusCode, JSON.parse(body).error.code];
}
