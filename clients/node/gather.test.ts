// When calls of `verify` leave, and end; ../cases.json has how they are gathered.
import { once } from 'node:events';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { joinWorld, makeCustomers, newWorkspace } from '../../tests/helpers/world.ts';
import { VERIFY_BATCH_PATH, VERIFY_PATH } from '../../shared/verification/operation.ts';
import { makeClient } from './client.ts';
import { makeClock } from './helpers/clock.ts';
import { failure } from './helpers/failure.ts';
import { makeProxy } from './helpers/proxy.ts';
import type { KeytallyError } from './index.ts';

const clock = makeClock();

const world = await joinWorld();
const customers = makeCustomers(world, await newWorkspace(world));
const proxy = await makeProxy(world.verify.url);
const options = { url: proxy.url, token: world.team.token };
const client = makeClient(options, clock);
test.before.each(() => {
  proxy.fate = 'pass';
  proxy.next();
});

test('calls that come while others are on their way leave together after a millisecond, and are held up by nobody', async () => {
  const { key } = await customers.newKey();
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

test('of two calls whose batch fails only the one whose earlier answer was lost may be debited', async () => {
  let second: Promise<KeytallyError> | undefined;
  const onRetry = () => void (second ??= failure(telling.verify({ key: 'b' })));
  const telling = makeClient({ ...options, onRetry }, clock);
  const body = { error: { code: 50301, message: 'not now' } };
  proxy.next('refuse', { status: 503, headers: { 'Retry-After': '60' }, body });
  const first = await failure(telling.verify({ key: 'a' }));
  assert.equal([first.mayBeDebited, (await second)?.mayBeDebited], [true, false]);
  assert.equal(paths(), [VERIFY_PATH, VERIFY_BATCH_PATH]);
});

function paths(): (string | undefined)[] {
  return proxy.seen.map(({ url }) => url);
}
