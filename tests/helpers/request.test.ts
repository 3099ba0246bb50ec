import { once as event } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { errors, type ErrorName } from '../../shared/contract/errors.ts';
import { learnContract } from './contract.ts';
import { must } from './customers.ts';
import { once, request } from './request.ts';

const test = suite('requests of tests');
// The Idempotency-Keys of the calls that came, by the order of these.
let keys: (string | undefined)[] = [];

// Refuses the first call with the error that its path names, and answers the others.
const server = createServer((call, response) => {
  if (call.url === '/openapi.json') return void response.writeHead(404).end();
  keys.push(call.headers['idempotency-key'] as string | undefined);
  const [code] = errors[call.url!.slice(1) as ErrorName];
  const status = keys.length === 1 ? Math.floor(code / 100) : 200;
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { code } }));
});
await event(server.listen(0, '127.0.0.1'), 'listening');
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
await learnContract(url);
test.before.each(() => void (keys = []));
test.after(() => void server.close());

const ask = (method: string, error: ErrorName, headers: Record<string, string> = {}) =>
  request(`${url}/${error}`, method, { headers });

test('what was not decided is asked again where nothing is done twice by it', async () => {
  const { 'Idempotency-Key': key } = once();
  for (const [method, error, headers] of [
    ['get', 'deadline', {}],
    ['patch', 'stored_not_in_force', {}],
    ['post', 'redis_unavailable', {}],
    ['delete', 'postgres_unavailable', {}],
    ['post', 'undecided', { 'Idempotency-Key': key }],
    ['post', 'idempotency_busy', { 'Idempotency-Key': key }],
  ] as const) {
    keys = [];
    await must(200, ask(method, error, headers));
    assert.is(keys.length, 2, `${method}: ${error}`);
    if ('Idempotency-Key' in headers) assert.equal(keys, [key, key]);
  }
});

test('nothing else is asked again, nor an answer that is wanted', async () => {
  for (const [method, error] of [
    ['post', 'undecided'],
    ['delete', 'stored_or_not'],
    ['get', 'internal'],
  ] as const) {
    keys = [];
    const outcome = await must(200, ask(method, error)).catch((failed: Error) => failed);
    assert.instance(outcome, Error, `${method}: ${error}`);
    assert.is(keys.length, 1, `${method}: ${error}`);
  }
  keys = [];
  await must(503, ask('get', 'deadline'));
  assert.is(keys.length, 1);
});
