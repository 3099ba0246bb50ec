import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../../tests/helpers/customers.ts';
import { eventually, makeWorld, PATIENT, type Answer, type World } from '../../../../tests/helpers/world.ts';
import { portalRoutes, routes } from '../index.ts';

const OURS = 'https://app.example.com';
const SESSION = '/portal/session';
const own = { 'Sec-Fetch-Site': 'same-origin' };
const marked = { ...own, 'X-Keytally-Session': '1' };
const CUSTOMER = 'cus_acme';
let world: World;
let workspaceId: string;
const test = suite('the portal');
test.before(async () => {
  world = await makeWorld(['verify', 'consumer'], { CORS_ORIGINS: OURS, ...PATIENT });
  workspaceId = await newWorkspace();
});
test.after(() => world?.stop());

test('a link token opens the portal: a cookie that no script reads and no other site sends stands for it until it ends', async () => {
  const before = Date.now();
  const { token, id, expiresAt } = await newLink();
  const opened = await must(201, open(token));
  const passed = (Date.now() - before) / 1_000;
  const [, cookie, seconds] = /^(keytally-portal=[\w-]{43}); Max-Age=(\d+); Path=\/; HttpOnly; SameSite=Strict$/.exec(
    opened.headers.get('set-cookie')!,
  )!;
  assert.ok(Number(seconds) >= Math.floor(899 - passed) && Number(seconds) <= 900, seconds);
  const { portal } = (await must(200, by(cookie!, 'get', '/api/v1/portal'))).body;
  assert.equal(portal, { customerId: CUSTOMER, permissions: [], hasBalance: false, expiresAt });
  const [row] = await world.sql`select * from sessions where link_token_id = ${id}`;
  assert.is(row!['tokenId'], null);
  assert.is(row!['expiresAt'].getTime(), expiresAt);
  assert.not.ok(JSON.stringify(row).includes(cookie!.slice('keytally-portal='.length)), 'the secret is stored nowhere');
  assert.not.ok(opened.text.includes(token));
  // It opens again until it ends, and each session is by itself.
  const other = cookieOf(await must(201, open(token)));
  assert.is.not(other, cookie);
  const { auditLog } = (await world.call('get', `/api/v1/audit-log?resource=session&limit=200`)).body;
  const lines = auditLog.filter((line: { after?: { linkTokenId?: string } }) => line.after?.linkTokenId === id);
  assert.is(lines.length, 2);
  assert.is(lines[0].operation, 'POST /portal/session');
});

test('over TLS the cookie is bound to the host and to TLS', async () => {
  const { url } = await world.start('api', { TLS_BY_PROXY: 'true' });
  const opened = await must(201, open((await newLink()).token, marked, url));
  const cookie = opened.headers.get('set-cookie')!;
  assert.match(cookie, /^__Host-keytally-portal=[\w-]{43}; .*Path=\/; HttpOnly; SameSite=Strict; Secure$/);
  const bare = cookieOf(opened).replace('__Host-', '');
  assert.is(codeOf(await by(bare, 'get', `${url}/api/v1/portal`)), 40104);
  assert.is((await by(cookieOf(opened), 'get', `${url}/api/v1/portal`)).status, 200);
});

test('what is no link token in force opens nothing', async () => {
  const { token, id } = await newLink();
  const refused = async (link: string, why: string) => {
    const answer = await open(link);
    assert.equal([codeOf(answer), answer.headers.get('set-cookie')], [40104, null], why);
  };
  await refused('', 'none');
  await refused(token.slice(0, -1) + (token.endsWith('0') ? '1' : '0'), 'mistyped');
  await refused(id, 'its id');
  await refused(world.team.token, 'an access token');
  const gone = await newLink();
  await must(200, world.call('delete', `/api/v1/link-token/${gone.token}`));
  await refused(gone.token, 'revoked');
  const over = await newLink();
  await world.sql`update link_tokens set expires_at = 1 where id = ${over.id}`;
  await refused(over.token, 'expired');
  const earlier = await newLink();
  await world.sql`update link_tokens set created_by = null where id = ${earlier.id}`;
  await refused(earlier.token, 'of an earlier version');
  assert.is(codeOf(await world.call('post', SESSION, undefined, { token, headers: marked })), 40104, 'a bearer');
  assert.is((await open(token)).status, 201);
});

test('a session ends within a second after its link, the token that made the link, or the workspace, and by leaving', async () => {
  const ends: Record<string, (link: Link, cookie: string) => Promise<unknown>> = {
    revoked: ({ token }) => must(200, world.call('delete', `/api/v1/link-token/${token}`)),
    expired: ({ id }) => world.sql`update link_tokens set expires_at = 1 where id = ${id}`,
    'over by itself': ({ id }) => world.sql`update sessions set expires_at = now() where link_token_id = ${id}`,
    'its maker revoked': async ({ id }) => {
      const [row] = await world.sql`select created_by from link_tokens where id = ${id}`;
      await must(200, world.call('delete', `/api/v1/access-token/${row!['createdBy']}`));
    },
    'its workspace deleted': ({ workspaceId }) => must(200, world.call('delete', `/api/v1/workspace/${workspaceId}`)),
    left: (_, cookie) => must(200, by(cookie, 'delete', SESSION)),
  };
  for (const [how, end] of Object.entries(ends)) {
    const maker = await world.newToken(world.team.id, ['link:write', 'key:read', 'billing:read', 'usage:read']);
    const link = await newLink({ workspaceId: await newWorkspace() }, maker);
    const cookie = cookieOf(await must(201, open(link.token)));
    assert.is((await by(cookie, 'get', '/api/v1/portal')).status, 200);
    await end(link, cookie);
    await eventually(`it is ${how}`, async () => (await by(cookie, 'get', '/api/v1/portal')).status !== 200, 1_000);
    assert.is(codeOf(await by(cookie, 'get', '/api/v1/portal')), 40104, how);
    assert.is(codeOf(await by(cookie, 'delete', SESSION)), 40104, how);
    assert.is((await open(link.token)).status, how === 'left' || how === 'over by itself' ? 201 : 401, how);
  }
});

test('a link token is a bearer nowhere, and a session of the portal opens nothing but the portal', async () => {
  const { token } = await newLink({ permissions: ['rotate'] });
  const cookie = cookieOf(await must(201, open(token)));
  const console = cookieOf(
    await must(201, world.call('post', '/console/session', undefined, { headers: { ...marked } })),
  );
  const pathOf = (path: string) => path.replace(/\{\w+\}/g, 'x');
  for (const { method, path, permission } of routes) {
    if (!permission) continue;
    const answer = await by(cookie, method, pathOf(path));
    assert.is(codeOf(answer), 40101, `${method} ${path}`);
    // Under the name of the console's cookie it is unknown there.
    const renamed = cookie.replace('keytally-portal', 'keytally');
    if (permission !== 'key:verify') assert.is(codeOf(await by(renamed, method, pathOf(path))), 40103, path);
    const bearer = await world.call(method, pathOf(path), undefined, { token, headers: marked });
    assert.is(codeOf(bearer), 40102, `${method} ${path}`);
  }
  assert.is(codeOf(await by(cookie, 'get', '/console/session')), 40101);
  for (const { method, path } of portalRoutes) {
    const where = `${method} ${path}`;
    for (const bearer of [world.team.token, token])
      assert.is(
        codeOf(await world.call(method, pathOf(path), undefined, { token: bearer, headers: marked })),
        40104,
        where,
      );
    assert.is(codeOf(await by(console, method, pathOf(path))), 40104, where);
    assert.is(codeOf(await by(console.replace('keytally', 'keytally-portal'), method, pathOf(path))), 40104, where);
    const both = { ...marked, Authorization: `Bearer ${world.team.token}` };
    assert.is(codeOf(await by(cookie, method, pathOf(path), undefined, both)), 40104, where);
  }
});

test('a session counts only for a page of the same origin, a change only with the header of our page, and CORS lets nobody in', async () => {
  const { token } = await newLink({ permissions: ['rotate'] });
  const cookie = cookieOf(await must(201, open(token)));
  const { origin, port } = new URL(world.api.url);
  for (const headers of [
    { 'Sec-Fetch-Site': 'cross-site' },
    { 'Sec-Fetch-Site': 'same-site', Origin: origin },
    { 'Sec-Fetch-Site': 'none' },
    { Origin: OURS },
    { Origin: 'null' },
    { Origin: `http://127.0.0.1:${Number(port) + 1}` },
  ]) {
    const name = JSON.stringify(headers);
    const read = await by(cookie, 'get', '/api/v1/portal', undefined, { ...headers, 'X-Keytally-Session': '1' });
    assert.is(codeOf(read), 40308, name);
    assert.is(read.headers.get('access-control-allow-credentials'), null);
    const opened = await open(token, { ...headers, 'X-Keytally-Session': '1' });
    assert.equal([codeOf(opened), opened.headers.get('set-cookie')], [40308, null], name);
  }
  for (const headers of [own, { ...own, 'X-Keytally-Session': 'true' }]) {
    assert.is(codeOf(await by(cookie, 'post', '/api/v1/portal/key/x/rotate', {}, headers)), 40309);
    assert.is(codeOf(await by(cookie, 'delete', SESSION, undefined, headers)), 40309);
    assert.is(codeOf(await open(token, headers)), 40309);
    assert.is((await by(cookie, 'get', '/api/v1/portal', undefined, headers)).status, 200);
  }
  const asked = await fetch(world.api.url + SESSION, {
    method: 'OPTIONS',
    headers: {
      Origin: OURS,
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'x-keytally-session,x-keytally-link',
    },
  });
  assert.not.match(asked.headers.get('access-control-allow-headers')!, /x-keytally/i);
});

test("it lists the customer's own keys in that workspace alone, masked, without what the team notes about them", async () => {
  const elsewhere = await newWorkspace();
  const metadata = { crm: 'of the team' };
  const mine = await newKey({ name: 'mine', metadata, allowedIPs: ['203.0.113.0/24'] });
  const deleted = await newKey({ name: 'deleted' });
  await must(200, world.call('delete', `/api/v1/workspace/${workspaceId}/api-key/${deleted.id}`));
  await newKey({ name: 'theirs', customerId: 'cus_other' });
  await newKey({ name: 'nobody’s', customerId: undefined });
  await newKey({ name: 'of another workspace', workspaceId: elsewhere });
  const second = await newKey({ name: 'mine too' });
  const cookie = await session();
  const page = (await must(200, by(cookie, 'get', '/api/v1/portal/keys?limit=1'))).body;
  const { id, name, maskedKey, enabled, createdAt } = mine;
  assert.equal(page.apiKeys, [{ id, name, maskedKey, enabled, createdAt }]);
  const rest = (await must(200, by(cookie, 'get', `/api/v1/portal/keys?cursor=${page.nextCursor}`))).body;
  assert.equal(
    rest.apiKeys.map((key: { id: string }) => key.id),
    [second.id],
  );
  const other = await session({ workspaceId: elsewhere });
  assert.is(codeOf(await by(other, 'get', `/api/v1/portal/keys?cursor=${page.nextCursor}`)), 40007);
});

test("it sums the usage of the customer's own keys by day and name, with and without a billing record", async () => {
  const here = await newWorkspace();
  const shared = await newBilling(here, 'shared');
  const key = (fields: object) => newKey({ workspaceId: here, ...fields });
  const [mine, unmetered, theirs] = [
    await key({ externalMeterId: 'shared' }),
    await key({}),
    await key({ externalMeterId: 'shared', customerId: 'cus_other' }),
  ];
  await use(mine.key, '1.25', 'tokens');
  await use(mine.key, '2', 'images');
  await use(unmetered.key, '0', 'tokens');
  await use(theirs.key, '40', 'tokens');
  await eventually('the books have it', async () => {
    const { data } = (await world.call('get', `/api/v1/usage?workspaceId=${here}&groupBy=customer,billing`)).body;
    return data.reduce((sum: number, { events }: { events: number }) => sum + events, 0) === 4;
  });
  const cookie = await session({ workspaceId: here, billingId: shared });
  const { data } = (await must(200, by(cookie, 'get', '/api/v1/portal/usage'))).body;
  const day = new Date().toISOString().slice(0, 10);
  assert.equal(data, [
    { day, billingUsageName: 'images', totalBillingUsage: '2', events: 1 },
    { day, billingUsageName: 'tokens', totalBillingUsage: '1.25', events: 2 },
  ]);
  assert.equal(
    (await must(200, by(cookie, 'get', '/api/v1/portal/usage?from=2025-01-01&to=2025-01-31'))).body.data,
    [],
  );
  assert.is(codeOf(await by(cookie, 'get', '/api/v1/portal/usage?from=2025-01-01&to=2026-01-01')), 40022);
  assert.is(codeOf(await by(cookie, 'get', '/api/v1/portal/usage?customerId=cus_other')), 40001);
  // More records than one parameter of ClickHouse can name.
  await world.sql`
    insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
    select 'bill_' || lpad(i::text, 26, '0'), ${world.team.id}, ${here}, 'm' || i, 0, 0, true from generate_series(1, 4000) i`;
  await world.sql`
    insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, customer_id, external_meter_id)
    select 'key_' || lpad(i::text, 26, '0'), ${world.team.id}, ${here}, 0, 'k', 'k', '', true, ${CUSTOMER}, 'm' || i
    from generate_series(1, 4000) i`;
  assert.equal((await must(200, by(cookie, 'get', '/api/v1/portal/usage'))).body.data, data);
  // The balance is another customer's, too.
  for (const path of ['billing', 'grants', 'statement'])
    assert.is(codeOf(await by(cookie, 'get', `/api/v1/portal/${path}`)), 40404, path);
  assert.is((await by(cookie, 'get', '/api/v1/portal')).body.portal.hasBalance, false);
});

test('balance, grants and statement of the record of the link show while every key of the record is the customer’s', async () => {
  const here = await newWorkspace();
  const billingId = await newBilling(here, 'acme', '100');
  await must(
    200,
    world.call('patch', `/api/v1/customer-billing/${billingId}`, {
      alerts: [{ name: 'low', when: { usedPercent: 90 } }],
    }),
  );
  const headers = { 'Idempotency-Key': 'trial' };
  const trial = { credits: '5', name: 'trial', metadata: { of: 'the team' } };
  await must(201, world.call('post', `/api/v1/customer-billing/${billingId}/grant`, trial, { headers }));
  const cookie = await session({ workspaceId: here, billingId });
  const hasBalance = async () => (await must(200, by(cookie, 'get', '/api/v1/portal'))).body.portal.hasBalance;
  assert.is(await hasBalance(), false, 'without keys nobody knows whose it is');
  const { key } = await newKey({ workspaceId: here, externalMeterId: 'acme' });
  assert.is(await hasBalance(), true);
  await use(key, '2.5', 'tokens');
  const corrected = { amount: '0.5', reason: 'counted too little' };
  await must(
    201,
    world.call('post', `/api/v1/customer-billing/${billingId}/adjustment`, corrected, {
      headers: { 'Idempotency-Key': 'a' },
    }),
  );
  const { billing } = (await must(200, by(cookie, 'get', '/api/v1/portal/billing'))).body;
  assert.equal([billing.availableCredits, billing.usedCredits, billing.alerts], ['102', '3', undefined]);
  const { grants } = (await must(200, by(cookie, 'get', '/api/v1/portal/grants'))).body;
  assert.equal(
    grants.map(({ name, credits, metadata }: Record<string, unknown>) => [name, credits, metadata]),
    [
      [undefined, '100', undefined],
      ['trial', '5', undefined],
    ],
  );
  const month = new Date().toISOString().slice(0, 7);
  const { statement } = await eventually('the statement has it', async () => {
    const { body } = await must(200, by(cookie, 'get', `/api/v1/portal/statement?month=${month}`));
    return body.statement.closing.remaining === '102' && body;
  });
  const adjustment = statement.movements.find(({ kind }: { kind: string }) => kind === 'adjustment');
  assert.equal([adjustment.amount, adjustment.reason, adjustment.tokenId], ['0.5', 'counted too little', undefined]);
  const asCsv = await must(200, by(cookie, 'get', `/api/v1/portal/statement?month=${month}&format=csv`));
  assert.match(asCsv.headers.get('content-type')!, 'text/csv');
  assert.match(asCsv.text, 'counted too little');
  assert.not.match(asCsv.text, /tok_/);

  const second = await newKey({ workspaceId: here, externalMeterId: 'acme', customerId: 'cus_other' });
  await must(200, world.call('delete', `/api/v1/workspace/${here}/api-key/${second.id}`));
  assert.is(await hasBalance(), false, 'also of a key that was deleted: its usage is in the balance');
  for (const path of ['billing', 'grants', 'statement'])
    assert.is(codeOf(await by(cookie, 'get', `/api/v1/portal/${path}`)), 40404, path);
  const without = await session({ workspaceId: here });
  assert.is(codeOf(await by(without, 'get', '/api/v1/portal/billing')), 40404);
});

test('with the permission the customer rotates own keys, and the audit log names the link', async () => {
  const { id, key } = await newKey({ name: 'to rotate', metadata: { of: 'the team' } });
  const theirs = await newKey({ customerId: 'cus_other' });
  const elsewhere = await newKey({ workspaceId: await newWorkspace() });
  const pathOf = (akid: string) => `/api/v1/portal/key/${akid}/rotate`;
  const looking = await session();
  assert.is(codeOf(await by(looking, 'post', pathOf(id), {})), 40301);

  const link = await newLink({ permissions: ['rotate'] });
  const cookie = cookieOf(await must(201, open(link.token)));
  assert.equal((await by(cookie, 'get', '/api/v1/portal')).body.portal.permissions, ['rotate']);
  const headers = { ...marked, 'Idempotency-Key': 'once' };
  const rotate = () => by(cookie, 'post', pathOf(id), { graceSeconds: 3600 }, headers);
  const { apiKey } = (await must(200, rotate())).body;
  assert.equal(Object.keys(apiKey).toSorted(), ['createdAt', 'enabled', 'id', 'key', 'maskedKey', 'name']);
  assert.is((await must(200, rotate())).body.apiKey.key, apiKey.key, 'a repeat makes no other');
  assert.equal([await statusOf(apiKey.key), await statusOf(key)], ['VALID', 'VALID']);
  for (const akid of [theirs.id, elsewhere.id, 'x'])
    assert.is(codeOf(await by(cookie, 'post', pathOf(akid), {})), 40403);
  assert.equal([await statusOf(theirs.key), await statusOf(elsewhere.key)], ['VALID', 'VALID']);
  const { auditLog } = (await world.call('get', `/api/v1/audit-log?resourceId=${id}`)).body;
  const line = auditLog.at(-1);
  assert.is(line.operation, 'POST /api/v1/portal/key/{akid}/rotate');
  assert.is(line.after.linkTokenId, link.id);
  assert.match(line.tokenId, /^tok_/);

  // Revoked, it changes nothing from that moment on, whatever is remembered of it.
  await must(200, by(cookie, 'get', '/api/v1/portal'));
  await must(200, world.call('delete', `/api/v1/link-token/${link.token}`));
  assert.is(codeOf(await by(cookie, 'post', pathOf(id), {})), 40104);
  assert.is(await statusOf(apiKey.key), 'VALID');
});

test('a link gives a key at most 10 new secrets in an hour, and its refusals are not kept', async () => {
  const { id } = await newKey({ name: 'rotated without end' });
  const cookie = await session({ permissions: ['rotate'] });
  const rotate = (i: number) =>
    by(cookie, 'post', `/api/v1/portal/key/${id}/rotate`, {}, { ...marked, 'Idempotency-Key': `rotation-${i}` });
  // The first of the ten is the one that the key was made with.
  const answers = await Promise.all(Array.from({ length: 14 }, (_, i) => rotate(i)));
  const refused = answers.filter(({ status }) => status !== 200);
  assert.is(refused.length, 5);
  for (const answer of refused) {
    assert.is(codeOf(answer), 42923);
    const wait = Number(answer.headers.get('retry-after'));
    assert.ok(wait > 3_000 && wait <= 3_600, String(wait));
  }
  const [{ kept }] = await world.sql<[{ kept: number }]>`
    select count(*)::int as kept from idempotency_keys where status = 429`;
  assert.is(kept, 0);
  await world.sql`update key_texts set created_at = created_at - interval '1 hour' where key_id = ${id}`;
  assert.is((await rotate(0)).status, 200);
});

test('a customer who asks too often is told to wait, and holds up nobody else', async () => {
  const [cookie, other] = [await session(), await session({ customerId: 'cus_other' })];
  await eventually('it is told to wait', async () => {
    const answers = await Promise.all(Array.from({ length: 40 }, () => by(cookie, 'get', '/api/v1/portal')));
    return answers.some((answer) => codeOf(answer) === 42902);
  });
  assert.is((await by(other, 'get', '/api/v1/portal')).status, 200);
  assert.is((await world.call('get', '/api/v1/workspace')).status, 200);
});

test.run();

type Link = { id: string; token: string; expiresAt: number; workspaceId: string };

function open(link: string, headers: Record<string, string> = marked, url = world.api.url): Promise<Answer> {
  return world.call('post', url + SESSION, undefined, {
    token: null,
    headers: { 'X-Keytally-Link': link, ...headers },
  });
}

function by(cookie: string, method: string, path: string, body?: unknown, headers: Record<string, string> = marked) {
  return world.call(method, path, body, { token: null, headers: { Cookie: cookie, ...headers } });
}

function cookieOf(answer: Answer): string {
  return answer.headers.get('set-cookie')!.split(';', 1)[0]!;
}

function codeOf(answer: Answer): number {
  return answer.body.error?.code;
}

async function session(fields: object = {}): Promise<string> {
  return cookieOf(await must(201, open((await newLink(fields)).token)));
}

async function newLink(fields: object = {}, token = world.team.token): Promise<Link> {
  const body = { workspaceId, customerId: CUSTOMER, ...fields };
  return (await must(201, world.call('post', '/api/v1/link-token', body, { token }))).body.linkToken;
}

async function newKey(fields: object) {
  const body = { name: 'n', workspaceId, customerId: CUSTOMER, ...fields };
  return (await must(201, world.call('post', '/api/v1/api-key', body))).body.apiKey;
}

async function newWorkspace(): Promise<string> {
  return (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
}

async function newBilling(workspaceId: string, externalMeterId: string, totalCredits = '1000'): Promise<string> {
  const body = { workspaceId, externalMeterId, totalCredits };
  return (await must(201, world.call('post', '/api/v1/customer-billing', body))).body.billing.id;
}

async function use(key: string, usage: string, usageName: string): Promise<void> {
  const answer = await world.call('post', `${world.verify!.url}/api/v1/api-key/verify`, {
    key,
    billing: { usage, usageName },
  });
  assert.is(answer.body.status, 'VALID', answer.text);
}

async function statusOf(key: string): Promise<string> {
  return (await world.call('post', `${world.verify!.url}/api/v1/api-key/verify`, { key })).body.status;
}
