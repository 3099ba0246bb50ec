import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually, makeWorld, type World } from '../../tests/helpers/world.ts';
import { displayForms as ours } from '../../shared/verification/operation.ts';
import { displayForms, each, keytally, KeytallyError, type ClientOptions, type Keytally } from './index.ts';
import { operations, VERIFY, VERIFY_BATCH } from './operations.ts';
import { failure } from './helpers/failure.ts';
import { makeProxy, type Proxy } from './helpers/proxy.ts';

let world: World;
let client: Keytally;
let [api, verify]: Proxy[] = [];
const retried: KeytallyError[] = [];

const test = suite('the client');
test.before(async () => {
  world = await makeWorld(['verify']);
  [api, verify] = await Promise.all([makeProxy(world.api.url), makeProxy(world.verify!.url)]);
  client = keytally({
    url: `${api.url}/`,
    verifyUrl: verify.url,
    token: world.team.token,
    verifyTimeoutMs: 20_000,
    onRetry: (error) => retried.push(error),
  });
});
test.after(async () => {
  api?.stop();
  verify?.stop();
  await world.stop();
});
test.before.each(() => void (retried.length = 0));

test('has a function for every operation of the OpenAPI document, and each POST is safe to repeat', async () => {
  const { paths } = (await world.call('get', '/openapi.json')).body;
  const documented = Object.entries<any>(paths).flatMap(([path, methods]) =>
    Object.entries<any>(methods).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  );
  const named = [VERIFY, VERIFY_BATCH, ...Object.values(operations).flatMap((group) => Object.values<string>(group))];
  assert.equal(
    named.filter((name) => !name.includes(' as ')).toSorted(),
    documented
      // The portal's serve its page alone: they take no access token.
      .filter(({ operation }) => !['Probes', 'Portal'].some((tag) => operation.tags.includes(tag)))
      .map(({ name }) => name)
      .toSorted(),
  );
  const unsafe = documented.filter(
    ({ name, operation }) =>
      name.startsWith('post ') && !operation.parameters.some((one: any) => one.name === 'Idempotency-Key'),
  );
  // Each verification of a batch has a key of its own; what is done to a hold has the hold's id; verifying a JWT only reads.
  const { capture, release, extend } = operations.holds;
  assert.equal(
    unsafe.map(({ name }) => name),
    [VERIFY_BATCH, capture, release, extend, 'post /api/v1/jwt/verify'],
  );
});

test('makes a customer with a key, verifies it, and reads its books', async () => {
  const { workspace } = await client.workspaces.create({ name: 'w' });
  const id = workspace.id;
  const { scope } = await client.scopes.create({ id, name: 'Documents', representation: 'documents' });
  const { billing } = await client.billing.create({ workspaceId: id, externalMeterId: 'acme', totalCredits: '10' });
  const { apiKey } = await client.apiKeys.create({
    name: 'k',
    workspaceId: id,
    externalMeterId: 'acme',
    scopes: [{ representation: 'documents', read: true }],
  });
  const answer = await client.verify({
    key: apiKey.key,
    requestedScopes: [{ representation: 'documents', read: true }],
    billing: { usage: '0.25', usageName: 'tokens' },
  });
  assert.equal([answer.status, answer.billing?.usedCredits], ['VALID', '0.25']);
  assert.is(
    (await client.billing.refill({ workspaceId: id, externalMeterId: 'acme', refill: 5 })).billing.totalCredits,
    '15',
  );
  assert.is((await client.billing.get({ workspaceId: id, externalMeterId: 'acme' })).billing.usedCredits, '0.25');
  assert.is((await client.billing.update({ bid: billing.id, spendCap: '12' })).billing.spendCap, '12');
  assert.equal((await client.usage.daily({ bid: billing.id, usageName: 'none of them' })).data, []);
  assert.match(await client.usage.csv({ bid: billing.id }), /^billingId,day/);
  assert.is((await client.apiKeys.update({ id, akid: apiKey.id, enabled: false })).apiKey.enabled, false);
  assert.is((await client.verify({ key: apiKey.key })).status, 'DISABLED');
  assert.is.not((await client.apiKeys.rotate({ id, akid: apiKey.id })).apiKey.key, apiKey.key);
  assert.is((await client.apiKeys.get({ id, akid: apiKey.id })).apiKey.name, 'k');
  assert.is((await client.apiKeys.delete({ id, akid: apiKey.id })).apiKey.deleted, true);
  assert.is((await client.scopes.get({ id, sid: scope.id })).scope.name, 'Documents');
  assert.is((await client.scopes.update({ id, sid: scope.id, name: 'D' })).scope.name, 'D');
  assert.is((await client.scopes.list({ id })).scopes.length, 1);
  await client.scopes.delete({ id, sid: scope.id });
  assert.is((await client.workspaces.update({ id, name: 'x' })).workspace.name, 'x');
  assert.is((await client.workspaces.get({ id })).workspace.name, 'x');
});

test('signs and verifies JWTs, and makes link and access tokens', async () => {
  const { workspace } = await client.workspaces.create({ name: 'w' });
  const { jwt } = await client.jwts.create({ payload: { a: 1 } });
  assert.equal((await client.jwts.verify({ jwt })).payload, { a: 1 });
  await client.jwts.rotate();
  assert.ok((await client.jwts.keys({ team: world.team.id })).keys.length >= 2);
  const { linkToken } = await client.linkTokens.create({ workspaceId: workspace.id, customerId: 'a/b' });
  assert.is((await client.linkTokens.get({ token: linkToken.token })).customerId, 'a/b');
  await client.linkTokens.delete({ token: linkToken.token });
  assert.is((await client.linkTokens.get({ token: linkToken.token })).valid, false);
  const { accessToken } = await client.accessTokens.create({ name: 't', permissions: ['key:verify'] });
  await client.accessTokens.delete({ id: accessToken.id });
  assert.is((await client.auditLog.list({ resourceId: accessToken.id })).auditLog.length, 2);
});

test('gives every item of a list, whatever the page size', async () => {
  const { workspace } = await client.workspaces.create({ name: 'w' });
  const made: string[] = [];
  for (let i = 0; i < 5; i++) {
    made.push((await client.apiKeys.create({ workspaceId: workspace.id, name: `k${i}` })).apiKey.name);
  }
  for (const limit of [1, 2, 5, 200]) {
    api!.next();
    const names: string[] = [];
    for await (const key of each(client.apiKeys.list, { id: workspace.id, limit })) names.push(key.name);
    assert.equal(names, made);
    assert.is(api!.seen.length, Math.ceil(5 / limit), 'as many requests as there are pages');
  }
  for await (const found of each(client.workspaces.list)) if (found.id === workspace.id) return;
  assert.unreachable('the workspace was not listed');
});

test('an error that keytally answered has its status, code, request id and details', async () => {
  const error = await failure(client.workspaces.create({ name: '' }, { requestId: 'mine' }));
  assert.equal([error.status, error.code, error.requestId], [400, 40001, 'mine']);
  assert.is(error.details[0]!.path, '/name');
  assert.is(error.isAway, false);
  const unknown = await failure(keytally({ url: api!.url, token: 'kt_nobody' }).workspaces.list());
  assert.equal([unknown.status, unknown.code], [401, 40102]);
  assert.is(retried.length, 0);
});

test("an error of something else is not keytally's, whatever its code, and details of another form are left out", async () => {
  let answer: { status: number; body: object } | undefined;
  const server = createServer(
    (_, response) => void response.writeHead(answer!.status).end(JSON.stringify(answer!.body)),
  );
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const stranger = keytally({ url: `http://127.0.0.1:${port}`, token: 'x', verifyTimeoutMs: 20_000 });
  const message = 'Not Found';
  for (const code of [404, 40001, 4.04e4 + 0.5, '40401', null, 20001]) {
    answer = { status: code === 20001 ? 200 : 404, body: { error: { code, message } } };
    const error = await failure(stranger.verify({ key: 'x' }));
    assert.equal([error.status, error.code], [answer.status, 0], String(code));
    assert.match(error.message, /not from keytally/);
    if (answer.status === 404) assert.is(await stranger.ready(), false, String(code));
  }
  for (const details of ['wrong', { path: '/key', message }, [null], [{ path: '/key' }], [{ path: 1, message }]]) {
    answer = { status: 400, body: { error: { code: 40001, message, details } } };
    const error = await failure(stranger.verify({ key: 'x' }));
    assert.equal([error.code, error.message, error.details], [40001, message, []], JSON.stringify(details));
  }
  server.close();
  server.closeAllConnections();
});

test('a call whose answer is lost is repeated and counts once', async () => {
  const { workspace } = await client.workspaces.create({ name: 'w' });
  const meter = { workspaceId: workspace.id, externalMeterId: 'lost' };
  await client.billing.create({ ...meter, totalCredits: '100' });
  api!.next('lose', 'html', 'lose');
  assert.is((await client.billing.refill({ ...meter, refill: 1 })).billing.totalCredits, '101');
  assert.is(api!.seen.length, 4);
  const { apiKey } = await client.apiKeys.create({ ...meter, name: 'k' });
  verify!.next('lose', 'refuse', 'lose');
  const answer = await client.verify({ key: apiKey.key, billing: { usage: '3' } });
  assert.equal([answer.status, answer.billing?.usedCredits], ['VALID', '3']);
  assert.is(verify!.seen.length, 4);
  assert.is(new Set(verify!.seen.map((one) => one.headers['idempotency-key'])).size, 1);
  assert.equal(
    retried.map(({ status }) => status),
    [0, 502, 0, 0, 0, 0],
  );
});

test('a call that hangs is given up early enough for another attempt, and a call without any answer fails', async () => {
  verify!.next('hang');
  assert.is((await client.verify({ key: 'x' }, { timeoutMs: 40_000 })).status, 'INVALID');
  verify!.fate = 'hang';
  const late = await failure(client.verify({ key: 'x' }, { timeoutMs: 100 }));
  assert.equal([late.status, late.code, late.isAway], [0, 0, true]);
  assert.match(late.message, /in time/);
  verify!.fate = 'pass';
  const nobody = keytally({ url: 'http://127.0.0.1:1', token: 'x' });
  // On a busy machine even a refused connection may take longer than what is left for a last attempt.
  await eventually('it is said what cannot be reached', async () => {
    const { message } = await failure(nobody.workspaces.list({}, { timeoutMs: 100 }));
    return message.endsWith('cannot be reached at http://127.0.0.1:1');
  });
  assert.is(await nobody.ready(), false);
  assert.is(await client.ready(), true);
});

test('an onRetry that throws ends no call', async () => {
  const { workspace } = await client.workspaces.create({ name: 'w' });
  let retries = 0;
  const telling = keytally({
    url: api!.url,
    token: world.team.token,
    onRetry() {
      retries += 1;
      throw new Error('printed by this test');
    },
  });
  api!.next('refuse');
  assert.is((await telling.workspaces.get({ id: workspace.id })).workspace.name, 'w');
  assert.ok(retries > 0);
});

test('a call ends when its signal aborts, between two attempts too', async () => {
  const reason = new Error('enough');
  verify!.fate = 'refuse';
  const controller = new AbortController();
  const stopping = keytally({
    url: verify!.url,
    token: world.team.token,
    verifyTimeoutMs: 60_000,
    onRetry: () => controller.abort(reason),
  });
  const thrown = await stopping.verify({ key: 'x' }, { signal: controller.signal }).catch((error: unknown) => error);
  verify!.fate = 'pass';
  assert.is(thrown, reason);
});

test('a token is not sent to where a redirect points, and an id never leads to another path', async () => {
  api!.next('redirect');
  assert.is((await failure(client.workspaces.list())).status, 307);
  for (const id of ['..', '.', '']) {
    api!.next();
    assert.instance(await client.workspaces.get({ id }).catch((error: unknown) => error), TypeError);
    assert.is(api!.seen.length, 0);
  }
  assert.is((await failure(client.workspaces.get({ id: 'a/../b?c#d' }))).status, 403);
  assert.is(api!.seen[0]!.url, '/api/v1/workspace/a%2F..%2Fb%3Fc%23d');
});

test('a missing, wrong or unknown option is named, and a token is never repeated', () => {
  const noUrl =
    "keytally(): url is missing; give verify's address (KEYTALLY_VERIFY_URL) for guards, or the api's (KEYTALLY_API_URL) for everything else";
  const [url, token] = ['http://127.0.0.1:1', 'kt_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1'];
  for (const [options, message] of [
    [{ url: undefined, token }, noUrl],
    [{ url: '', token }, noUrl],
    [{ url: 'ftp://a', token }, 'keytally(): url is "ftp://a"; it must start with http:// or https://'],
    [{ url: 'a:8081', token }, 'keytally(): url is "a:8081"; it must start with http:// or https://'],
    [{ url: token, token }, 'keytally(): url is a token; it must start with http:// or https://'],
    [
      { url: 'http://me:secret@127.0.0.1:1', token },
      'keytally(): url holds a user name or a password; leave them out, the token is enough',
    ],
    [
      { url, verifyUrl: 'https://:secret@a', token },
      'keytally(): verifyUrl holds a user name or a password; leave them out, the token is enough',
    ],
    [{ url: 'me:secret@a', token }, 'keytally(): url is wrong; it must start with http:// or https://'],
    [
      { url, verifyUrl: '', token },
      "keytally(): verifyUrl is missing; give verify's address (KEYTALLY_VERIFY_URL), or leave it out",
    ],
    [{ url, verifyUrl: 'b', token }, 'keytally(): verifyUrl is "b"; it must start with http:// or https://'],
    [{ url, token: undefined }, 'keytally(): token is missing; give an access token, e.g. KEYTALLY_TOKEN'],
    [{ url, token: '' }, 'keytally(): token is missing; give an access token, e.g. KEYTALLY_TOKEN'],
    [
      { url, token: `${token}\n` },
      'keytally(): token is wrong; it holds a space, a line break or another character that no access token has',
    ],
    [
      { url, token, verifyURL: url } as ClientOptions,
      'keytally(): verifyURL is not an option; the options are url, verifyUrl, token, timeoutMs, verifyTimeoutMs, fetch, onRetry',
    ],
  ] as const) {
    assert.throws(
      () => keytally(options),
      (error: Error) => error.message === message,
      message,
    );
  }
  assert.ok(keytally({ url, verifyUrl: undefined, token }));
});

test('the client shows the same display forms as the service', () => {
  assert.equal(displayForms, ours);
});

test.run();
