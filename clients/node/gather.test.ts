// How calls of `verify` leave: alone, or gathered in batches.
import { once } from 'node:events';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeCustomers } from '../../tests/helpers/customers.ts';
import { joinWorld } from '../../tests/helpers/world.ts';
import { VERIFY_BATCH_PATH, VERIFY_PATH } from '../../shared/verification/operation.ts';
import { makeClient } from './client.ts';
import { makeClock } from './helpers/clock.ts';
import { failure } from './helpers/failure.ts';
import { makeProxy } from './helpers/proxy.ts';
import type { Keytally, KeytallyError } from './index.ts';

const clock = makeClock();
const clients: Record<string, Keytally> = {};

const world = await joinWorld();
const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'w' })).body;
const customers = makeCustomers(world, workspace.id);
const proxy = await makeProxy(world.verify.url);
const options = { url: proxy.url, token: world.team.token };
clients['node:http'] = makeClient(options, clock);
clients['fetch'] = makeClient({ ...options, fetch: (...args) => fetch(...args) }, clock);
test.after(() => {
  proxy.stop();
  return world.stop();
});
test.before.each(() => {
  proxy.fate = 'pass';
  proxy.next();
});

for (const transport of ['node:http', 'fetch']) {
  test(`calls of one turn leave as one request, each with its own outcome, and one alone as a single one, by ${transport}`, async () => {
    const { key, meter } = await customers.meteredKey('1000');
    const client = clients[transport]!;
    const wrong: any[] = [{}, { key, colour: 'red' }, { key, billing: { usage: 'much' } }];
    const alone: unknown[] = [];
    for (const input of wrong) alone.push(await contentOf(client.verify(input)));
    assert.equal(paths(), Array(3).fill(VERIFY_PATH));
    proxy.next();
    const good = many(20, () => client.verify({ key, billing: { usage: '1' } }));
    const bad = wrong.map((input) => contentOf(client.verify(input)));
    const balances = (await Promise.all(good)).map(({ billing }) => billing?.usedCredits);
    assert.is(new Set(balances).size, 20, 'each has its own answer');
    assert.equal(await Promise.all(bad), alone);
    assert.equal(paths(), [VERIFY_BATCH_PATH]);
    assert.is((await customers.billing(meter)).usedCredits, '20');
  });
}

test('calls that come while others are on their way leave together after a millisecond, and are held up by nobody', async () => {
  const { key } = await customers.newKey();
  const client = clients['node:http']!;
  proxy.next('hold');
  const asked = once(proxy.server, 'request');
  const calls = [client.verify({ key })];
  await asked;
  for (let i = 0; i < 10; i++) {
    calls.push(client.verify({ key }));
    await new Promise(setImmediate);
  }
  assert.equal(paths(), [VERIFY_PATH]);
  clock.pass(1);
  await Promise.all(calls.slice(1));
  assert.equal(paths(), [VERIFY_PATH, VERIFY_BATCH_PATH]);
  proxy.release();
  assert.is((await calls[0]!).status, 'VALID');
});

test('each call of a batch has its own deadline, and is ended by its own signal', async () => {
  const { key } = await customers.newKey();
  const client = clients['node:http']!;
  proxy.next('hold');
  const asked = once(proxy.server, 'request');
  const controller = new AbortController();
  const reason = new Error('enough');
  const hasty = failure(client.verify({ key }, { timeoutMs: 60 }));
  const stopped = client.verify({ key }, { signal: controller.signal }).catch((error: unknown) => error);
  const patient = client.verify({ key });
  await asked;
  // A half of its time: then no pause fits in any more.
  clock.pass(60);
  assert.match((await hasty).message, /in time/);
  controller.abort(reason);
  assert.is(await stopped, reason);
  proxy.release();
  assert.is((await patient).status, 'VALID');
  assert.equal(paths(), [VERIFY_BATCH_PATH]);
});

test('one result that is not from keytally, or one too few or too many, fails its batch', async () => {
  const valid = { status: 'VALID' };
  for (const results of [[valid, {}], [valid], [valid, valid, valid]]) {
    proxy.fate = { body: { results } };
    for (const { message, code } of await Promise.all(
      many(2, () => failure(clients['node:http']!.verify({ key: 'a' }))),
    ))
      assert.equal(
        [message, code],
        ['HTTP 200, but the answer is not from keytally; check the address', 0],
        JSON.stringify(results),
      );
  }
});

test('of two calls whose batch fails only the one whose earlier answer was lost may be debited', async () => {
  let second: Promise<KeytallyError> | undefined;
  const onRetry = () => void (second ??= failure(client.verify({ key: 'b' })));
  const client = makeClient({ ...options, onRetry }, clock);
  const body = { error: { code: 50301, message: 'not now' } };
  proxy.next('refuse', { status: 503, headers: { 'Retry-After': '60' }, body });
  const first = await failure(client.verify({ key: 'a' }));
  assert.equal([first.mayBeDebited, (await second)?.mayBeDebited], [true, false]);
  assert.equal(paths(), [VERIFY_PATH, VERIFY_BATCH_PATH]);
});

/** What a call fails with, but for the request that it was. */
async function contentOf(call: Promise<unknown>): Promise<unknown> {
  const { status, code, message, details, requestId } = await failure(call);
  assert.equal([status, code], [400, 40001]);
  assert.match(requestId!, /./);
  return [message, details];
}

function paths(): (string | undefined)[] {
  return proxy.seen.map(({ url }) => url);
}

function many<T>(count: number, make: (i: number) => T): T[] {
  return Array.from({ length: count }, (_, i) => make(i));
}
