import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { column, joinWorld } from '../../tests/helpers/world.ts';
import { displayForms as ours } from '../../shared/verification/operation.ts';
import { makeClient } from './client.ts';
import { displayForms, each, keepUsage, keytally, type ClientOptions, type KeytallyError } from './index.ts';
import { operations, VERIFY, VERIFY_BATCH } from './operations.ts';
import { makeClock } from './helpers/clock.ts';
import { failure } from './helpers/failure.ts';
import { makeProxy } from './helpers/proxy.ts';

const clock = makeClock();
const retried: KeytallyError[] = [];

const world = await joinWorld();
const [api, verify] = await Promise.all([makeProxy(world.api.url), makeProxy(world.verify.url)]);
const options = { url: `${api.url}/`, verifyUrl: verify.url, token: world.team.token };
const client = keytally({ ...options, verifyTimeoutMs: 20_000 });
/** Its time passes by itself in pauses alone. */
const clocked = makeClient({ ...options, onRetry: (error) => retried.push(error) }, clock);
const workspaceId = (await client.workspaces.create({ name: 'w' })).workspace.id;
test.before.each(() => {
  retried.length = 0;
  for (const proxy of [api, verify]) {
    proxy.fate = 'pass';
    proxy.next();
  }
});

test('has a function for every operation of the OpenAPI document, and each POST is safe to repeat', async () => {
  const { paths } = (await world.call('get', '/openapi.json')).body;
  const all = Object.entries<any>(paths).flatMap(([path, methods]) =>
    Object.entries<any>(methods).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  );
  // Stripe alone calls this one.
  const documented = all.filter(({ name }) => name !== 'post /api/v1/payment-source/{pid}/events');
  const named = [VERIFY, VERIFY_BATCH, ...Object.values(operations).flatMap((group) => Object.values<string>(group))];
  assert.equal(
    named.filter((name) => !name.includes(' as ')).toSorted(),
    documented
      // The portal's serve its page alone: they take no access token.
      .filter(({ operation }) => !['Probes', 'Portal'].some((tag) => operation.tags.includes(tag)))
      .map(({ name }) => name)
      .toSorted(),
  );
  const unsafe = documented
    .filter(({ name }) => name.startsWith('post '))
    .filter(({ operation }) => !operation.parameters.some((one: any) => one.name === 'Idempotency-Key'));
  // Each verification of a batch has a key of its own; a cancel has the one that it cancels; what is done to a hold has the hold's id; verifying a JWT only reads.
  const { capture, release, extend } = operations.holds;
  const { cancel } = operations.verifications;
  assert.equal(column(unsafe, 'name'), [VERIFY_BATCH, cancel, capture, release, extend, 'post /api/v1/jwt/verify']);
});

test('an operation takes its path, query and body as one object, and answers JSON or text', async () => {
  const meter = { workspaceId, externalMeterId: 'acme' };
  const { billing } = await client.billing.create({ ...meter, totalCredits: '10' });
  const { apiKey } = await client.apiKeys.create({ ...meter, name: 'k' });
  const answer = await client.verify({ key: apiKey.key, billing: { usage: '0.25', usageName: 'tokens' } });
  assert.equal([answer.status, answer.billing?.usedCredits], ['VALID', '0.25']);
  assert.is((await client.billing.get(meter)).billing.usedCredits, '0.25');
  assert.match(await client.usage.csv({ bid: billing.id }), /^billingId,day/);
  const path = { id: workspaceId, akid: apiKey.id };
  assert.is((await client.apiKeys.update({ ...path, enabled: false })).apiKey.enabled, false);
  assert.is((await client.apiKeys.delete(path)).apiKey.deleted, true);
});

test('gives every item of a list, whatever the page size', async () => {
  const { id } = (await client.workspaces.create({ name: 'listed' })).workspace;
  for (let i = 0; i < 5; i++) await client.apiKeys.create({ workspaceId: id, name: `k${i}` });
  for (const limit of [2, 5, 200]) {
    api.next();
    const names: string[] = [];
    for await (const key of each(client.apiKeys.list, { id, limit })) names.push(key.name);
    assert.equal(names, ['k0', 'k1', 'k2', 'k3', 'k4']);
    assert.is(api.seen.length, Math.ceil(5 / limit), 'as many requests as there are pages');
  }
});

test('an error that keytally answered has its status, code, request id and details, and is not repeated', async () => {
  const error = await failure(clocked.workspaces.create({ name: '' }, { requestId: 'mine' }));
  assert.equal([error.status, error.code, error.requestId, error.isAway], [400, 40001, 'mine', false]);
  assert.is(error.details[0]!.path, '/name');
  assert.equal([api.seen.length, retried], [1, []]);
  const [ofBatch] = await Promise.all([failure(clocked.verify({} as never)), clocked.verify({ key: 'x' })]);
  assert.equal([ofBatch.status, ofBatch.code, ofBatch.details.length, verify.seen.length], [400, 40001, 1, 1]);
});

test('details of an error that are not as keytally writes them are left out', async () => {
  for (const details of [null, 'name', [null], [{ path: 1, message: 'm' }]]) {
    verify.next({ status: 400, body: { error: { code: 40001, message: 'm', details } } });
    assert.equal((await failure(client.verify({ key: 'x' }))).details, [], JSON.stringify(details));
  }
});

test('a call whose answer is lost is repeated with its Idempotency-Key, and counts once', async () => {
  const meter = { workspaceId, externalMeterId: 'lost' };
  await client.billing.create({ ...meter, totalCredits: '100' });
  const { apiKey } = await client.apiKeys.create({ ...meter, name: 'k' });
  for (const [proxy, call] of [
    [api, () => clocked.billing.refill({ ...meter, refill: 1 })],
    [verify, () => clocked.verify({ key: apiKey.key, billing: { usage: '3' } })],
  ] as const) {
    retried.length = 0;
    proxy.next('lose', 'html', 'refuse');
    await call();
    assert.is(proxy.seen.length, 4);
    assert.is(new Set(proxy.seen.map(({ headers }) => headers['idempotency-key'])).size, 1);
    assert.equal(column(retried, 'status'), [0, 502, 0]);
  }
  const { totalCredits, usedCredits } = (await client.billing.get(meter)).billing;
  assert.equal([totalCredits, usedCredits], ['101', '3']);
});

test('what keytally cannot decide for a moment is asked again in less than a second, where it says so', async () => {
  const headers = { 'Retry-After': '1', 'Retry-After-Ms': '50' };
  const away = { status: 503, headers, body: { error: { code: 50301, message: 'away' } } };
  verify.next(away, away);
  const began = clock.now();
  assert.is((await clocked.verify({ key: 'x' })).status, 'INVALID');
  assert.ok(clock.now() - began >= 100 && clock.now() - began <= 150);
});

test('a call that hangs is given up after half of its time, early enough for another attempt, and one without any answer fails in time', async () => {
  const asked: number[] = [];
  // Each attempt arrives, and then its half of a second passes.
  const listener = () => {
    asked.push(clock.now());
    if (verify.fate === 'hang' || asked.length === 1) clock.pass(500);
  };
  verify.server.on('request', listener);
  const began = clock.now();
  verify.next('hang');
  assert.is((await clocked.verify({ key: 'x' })).status, 'INVALID');
  assert.is(asked.length, 2);
  verify.fate = 'hang';
  const late = await failure(clocked.verify({ key: 'x' }));
  assert.equal([late.status, late.code, late.isAway, late.message], [0, 0, true, 'keytally did not answer in time']);
  verify.server.off('request', listener);
  assert.ok(asked[1]! - began >= 500 && asked[1]! - began < 1_000, 'within its second');
  const nobody = makeClient({ url: 'http://127.0.0.1:1', token: 'x' }, clock);
  assert.is((await failure(nobody.workspaces.list())).message, 'keytally cannot be reached at http://127.0.0.1:1');
  verify.fate = 'pass';
  assert.equal([await nobody.ready(), await client.ready()], [false, true]);
});

test('an onRetry that throws ends no call, and a signal that aborts ends it between two attempts too', async () => {
  const options = { url: verify.url, token: world.team.token };
  const onRetry = () => {
    throw new Error('printed by this test');
  };
  const telling = makeClient({ ...options, onRetry }, clock);
  verify.next('refuse');
  assert.is((await telling.verify({ key: 'x' })).status, 'INVALID');
  const reason = new Error('enough');
  const controller = new AbortController();
  const stopping = makeClient({ ...options, onRetry: () => controller.abort(reason) }, clock);
  verify.fate = 'refuse';
  const thrown = await stopping.verify({ key: 'x' }, { signal: controller.signal }).catch((error: unknown) => error);
  assert.is(thrown, reason);
});

test('a timeout that is left undefined is the default, and one that is no time is named, not tried for ever', async () => {
  const none = { timeoutMs: undefined } as never;
  verify.next();
  await Promise.all([clocked.workspaces.list({}, none), clocked.verify({ key: 'x' }, none)]);
  assert.is(verify.seen[0]!.headers['x-keytally-timeout-ms'], '500');
  for (const timeoutMs of [Number.NaN, Infinity, 0, -1, '1000' as unknown as number]) {
    const named = /^(verifyT|t)imeoutMs is .+; it must be a number of milliseconds above 0$/;
    for (const call of [clocked.workspaces.list({}, { timeoutMs }), clocked.verify({ key: 'x' }, { timeoutMs })])
      assert.instance(await call.catch((error: unknown) => error), TypeError);
    for (const wrong of [{ timeoutMs }, { verifyTimeoutMs: timeoutMs }])
      assert.throws(() => keytally({ ...options, ...wrong }), named);
  }
});

test('an unknown option is named', () => {
  const misspelt = { url: 'http://a', token: 'x', verifyURL: 'http://b' } as ClientOptions;
  assert.throws(() => keytally(misspelt), /verifyURL is not an option; the options are url, verifyUrl,/);
  const kept = { onLost() {}, atmost: 1 };
  assert.throws(() => keepUsage(client, kept), /^keepUsage\(\): atmost is not an option; .* are onLost, atMost$/);
});

test('the client shows the same display forms as the service', () => {
  assert.equal(displayForms, ours);
});
