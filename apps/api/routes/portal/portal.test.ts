import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../../shared/values/ids.ts';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import { type Answer, joinWorld, makeCustomers, must, newWorkspace } from '../../../../tests/helpers/world.ts';
import { callsOf, codesOf, column, columns, refused } from '../../tests/helpers/calls.ts';
import { callsByCookie, cookieOf, marked, own } from '../../tests/helpers/cookies.ts';
import { portalRoutes, routes } from '../index.ts';

const OURS = 'https://app.example.com';
const SESSION = '/portal/session';
const PORTAL = '/api/v1/portal';
const CUSTOMER = 'cus_acme';
let workspaceId: string;
const world = await joinWorld();
const { ask, read, make, change, remove } = callsOf(world);
const by = callsByCookie(world);
// An api behind a proxy with TLS, which lets pages of another origin in.
const secure = (await world.start('api', { TLS_BY_PROXY: 'true', CORS_ORIGINS: OURS })).url;
test.before.each(async () => void (workspaceId = await newWorkspace(world)));

test('a link token opens the portal: a cookie that no script reads and no other site sends stands for it until it ends', async () => {
  const before = Date.now();
  const { token, id, expiresAt } = await newLink();
  const opened = await must(201, open(token));
  const passed = (Date.now() - before) / 1_000;
  const [, cookie, seconds] = /^(keytally-portal=[\w-]{43}); Max-Age=(\d+); Path=\/; HttpOnly; SameSite=Strict$/.exec(
    opened.headers.get('set-cookie')!,
  )!;
  assert.ok(Number(seconds) >= Math.floor(899 - passed) && Number(seconds) <= 900, seconds);
  const { portal } = (await must(200, by(cookie!, 'get', PORTAL))).body;
  assert.equal(portal, { customerId: CUSTOMER, permissions: [], hasBalance: false, expiresAt });
  const [row] = await world.sql`select * from sessions where link_token_id = ${id}`;
  assert.equal([row!['tokenId'], row!['expiresAt'].getTime()], [null, expiresAt]);
  assert.not.ok(JSON.stringify(row).includes(cookie!.slice('keytally-portal='.length)), 'the secret is stored nowhere');
  assert.not.ok(opened.text.includes(token));
  // It opens again until it ends, and each session is by itself. Over TLS the cookie is bound to the host and to TLS.
  const again = (await must(201, open(token, marked, secure))).headers.get('set-cookie')!;
  assert.match(again, /^__Host-keytally-portal=[\w-]{43}; .*Path=\/; HttpOnly; SameSite=Strict; Secure$/);
  assert.not.ok(again.includes(cookie!));
  await refused(40104, by(cookie!, 'get', secure + PORTAL));
  const lines = await read('/api/v1/audit-log?resource=session&limit=200');
  const told = column(lines, 'after').filter(({ linkTokenId }) => linkTokenId === id);
  assert.equal([told.length, lines[0].operation], [2, 'POST /portal/session']);
});

test('the portal says whose it is, as its workspace has it', async () => {
  const path = `/api/v1/workspace/${workspaceId}`;
  const branding = { name: 'Acme', color: '#0B7285', logo: 'data:image/png;base64,iVBORw0KGgo=' };
  const { token } = await newLink();
  const cookie = cookieOf(await must(201, open(token)));
  const seen = async () => (await must(200, by(cookie, 'get', PORTAL))).body.portal.branding;
  assert.equal([(await change(path, { branding })).branding, await seen()], [branding, branding]);
  for (const wrong of [
    { color: 'red' },
    { color: '#fff; x: y' },
    { logo: 'https://example.com/logo.png' },
    { logo: 'data:text/html;base64,AA==' },
    { logo: `data:image/png;base64,${'A'.repeat(8192)}` },
    { name: 'A'.repeat(81) },
  ])
    await refused(40001, ask('patch', path, { branding: wrong }));
  await change(path, { branding: {} });
  assert.equal(await seen(), {});
});

test('what is no link token in force opens nothing', async () => {
  const good = await newLink();
  for (const [why, link] of Object.entries({
    none: '',
    mistyped: good.token.slice(0, -1) + (good.token.endsWith('0') ? '1' : '0'),
    'its id': good.id,
    'an access token': world.team.token,
  })) {
    const { body, headers } = await open(link);
    assert.equal([body.error?.code, headers.get('set-cookie')], [40104, null], why);
  }
  await refused(40104, callsOf(world, good.token).ask('post', SESSION, undefined, marked));
  await must(201, open(good.token));
});

test('a session ends with its link, the token that made the link, or the workspace, and by leaving', async () => {
  const ends: Record<string, (link: Link, cookie: string) => Promise<unknown>> = {
    revoked: ({ token }) => remove(`/api/v1/link-token/${token}`),
    expired: ({ id }) => world.sql`update link_tokens set expires_at = 1 where id = ${id}`,
    'over by itself': ({ id }) => world.sql`update sessions set expires_at = now() where link_token_id = ${id}`,
    'its maker revoked': async ({ id }) => {
      const [row] = await world.sql`select created_by from link_tokens where id = ${id}`;
      await remove(`/api/v1/access-token/${row!['createdBy']}`);
    },
    'its maker over': ({ id }) => world.sql`
      update access_tokens set expires_at = 1 where id = (select created_by from link_tokens where id = ${id})`,
    'its workspace deleted': () => remove(`/api/v1/workspace/${workspaceId}`),
    left: (_, cookie) => must(200, by(cookie, 'delete', SESSION)),
  };
  for (const [how, end] of Object.entries(ends)) {
    workspaceId = await newWorkspace(world);
    const maker = await world.newToken(world.team.id, ['link:write', 'key:read', 'billing:read', 'usage:read']);
    const link = await newLink({}, maker);
    const cookie = cookieOf(await must(201, open(link.token)));
    await must(200, by(cookie, 'get', PORTAL));
    await end(link, cookie);
    // By an api that has not seen it yet: one that has remembers it for half a second.
    const there = `__Host-${cookie}`;
    await refused(40104, by(there, 'get', secure + PORTAL), how);
    await refused(40104, by(there, 'delete', secure + SESSION), how);
    const goesOn = how === 'left' || how === 'over by itself';
    assert.is((await open(link.token)).status, goesOn ? 201 : 401, how);
    assert.is(await read(`/api/v1/link-token/${link.token}`), goesOn, how);
  }
});

test('a session of the portal opens nothing but the portal, and nothing else opens that', async () => {
  const { token } = await newLink({ permissions: ['rotate'] });
  const cookie = cookieOf(await must(201, open(token)));
  const console = cookieOf(await must(201, ask('post', '/console/session', undefined, marked)));
  const pathOf = (path: string) => path.replace(/\{\w+\}/g, 'x');
  // Under the name of the console's cookie it is unknown there.
  const renamed = cookie.replace('keytally-portal', 'keytally');
  for (const { method, path, permission } of routes.filter((one) => one.permission)) {
    await refused(40101, by(cookie, method, pathOf(path)), `${method} ${path}`);
    if (permission !== 'key:verify') await refused(40103, by(renamed, method, pathOf(path)), `${method} ${path}`);
  }
  await refused(40101, by(cookie, 'get', '/console/session'));
  // Who names a token is asked for it.
  const both = { ...marked, Authorization: `Bearer ${world.team.token}` };
  for (const { method, path } of portalRoutes)
    for (const asked of [
      ask(method, pathOf(path), undefined, marked),
      callsOf(world, token).ask(method, pathOf(path), undefined, marked),
      by(console, method, pathOf(path)),
      by(cookie, method, pathOf(path), undefined, both),
    ])
      await refused(40104, asked, `${method} ${path}`);
});

test('a session counts only for a page of the same origin, and a change only with the header of our page', async () => {
  const { token } = await newLink({ permissions: ['rotate'] });
  const cookie = cookieOf(await must(201, open(token, marked, secure)));
  const foreign = { Origin: OURS, 'X-Keytally-Session': '1' };
  const opened = await open(token, foreign, secure);
  assert.equal([opened.body.error?.code, opened.headers.get('set-cookie')], [40308, null]);
  await refused(40308, by(cookie, 'get', secure + PORTAL, undefined, foreign));
  await refused(40309, by(cookie, 'post', `${secure}${PORTAL}/key/x/rotate`, {}, own));
  await refused(40309, open(token, own, secure));
});

test("it lists the customer's own keys in that workspace alone, masked, without what the team notes about them", async () => {
  const mine = await newKey({ name: 'mine', metadata: { crm: 'of the team' }, allowedIPs: ['203.0.113.0/24'] });
  const deleted = await newKey({ name: 'deleted' });
  await remove(`/api/v1/workspace/${workspaceId}/api-key/${deleted.id}`);
  await newKey({ name: 'theirs', customerId: 'cus_other' });
  await newKey({ name: 'nobody’s', customerId: undefined });
  const elsewhere = await newWorkspace(world);
  await newKey({ name: 'of another workspace', workspaceId: elsewhere });
  const second = await newKey({ name: 'mine too' });
  const cookie = await session();
  const page = (await must(200, by(cookie, 'get', `${PORTAL}/keys?limit=1`))).body;
  const { id, name, maskedKey, enabled, createdAt } = mine;
  assert.equal(page.apiKeys, [{ id, name, maskedKey, enabled, createdAt }]);
  const rest = (await must(200, by(cookie, 'get', `${PORTAL}/keys?cursor=${page.nextCursor}`))).body;
  assert.equal(column(rest.apiKeys, 'id'), [second.id]);
  const other = await session({ workspaceId: elsewhere });
  await refused(40007, by(other, 'get', `${PORTAL}/keys?cursor=${page.nextCursor}`));
});

test("it sums the usage of the customer's own keys by day and name, with and without a billing record", async () => {
  const billingId = await newBilling('shared');
  await newKey({ externalMeterId: 'shared' });
  const day = new Date(Date.now() - 2 * DAY_MS).toISOString().slice(0, 10);
  const event = { workspace_id: workspaceId, day, time: `${day} 12:00:00`, customer_id: CUSTOMER };
  const metered = { ...event, billing_id: billingId };
  const values = [
    { ...metered, usage_name: 'tokens', cost_micros: 1_250_000 },
    { ...metered, usage_name: 'images', cost_micros: 2_000_000 },
    { ...event, usage_name: 'tokens', cost_micros: 0 },
    { ...metered, usage_name: 'tokens', cost_micros: 40_000_000, customer_id: 'cus_other' },
  ].map((one) => ({ ...one, event_id: newId('evt') }));
  await world.books.client.insert({ table: 'usage_events', values, format: 'JSONEachRow' });
  for (const marks of [billingId, workspaceId])
    await world.sql`insert into usage_marks (workspace_id, billing_id, day) values (${workspaceId}, ${marks}, ${day})`;
  const cookie = await session({ billingId });
  const usage = async (query = '') => (await must(200, by(cookie, 'get', `${PORTAL}/usage${query}`))).body.data;
  const rows = [
    { day, billingUsageName: 'images', totalBillingUsage: '2', events: 1 },
    { day, billingUsageName: 'tokens', totalBillingUsage: '1.25', events: 2 },
  ];
  assert.equal(await usage(), rows);
  assert.equal(await usage('?from=2025-01-01&to=2025-01-31'), []);
  await refused(40022, by(cookie, 'get', `${PORTAL}/usage?from=2025-01-01&to=2026-01-01`));
  await refused(40001, by(cookie, 'get', `${PORTAL}/usage?customerId=cus_other`));
  // More records than one parameter of ClickHouse can name.
  await world.sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    const idOf = (kind: string) => tx`${kind} || ${workspaceId} || i`;
    await tx`
      insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
      select ${idOf('bill')}, ${world.team.id}, ${workspaceId}, 'm' || i, 0, 0, true from generate_series(1, 4000) i`;
    await tx`
      insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, customer_id, external_meter_id)
      select ${idOf('key')}, ${world.team.id}, ${workspaceId}, 0, 'k', 'k', '', true, ${CUSTOMER}, 'm' || i
      from generate_series(1, 4000) i`;
  });
  assert.equal(await usage(), rows);
});

test('balance, grants and statement of the record of the link show while every key of the record is the customer’s', async () => {
  const billingId = await newBilling('acme', '100');
  const path = `/api/v1/customer-billing/${billingId}`;
  await change(path, { alerts: [{ name: 'low', when: { usedPercent: 90 } }], externalIds: { anywhere: 'cus_1' } });
  await make(`${path}/grant`, { credits: '5', name: 'trial', metadata: { of: 'the team' } });
  const cookie = await session({ billingId });
  const hasBalance = async () => (await must(200, by(cookie, 'get', PORTAL))).body.portal.hasBalance;
  assert.is(await hasBalance(), false, 'without keys nobody knows whose it is');
  const { key } = await newKey({ externalMeterId: 'acme' });
  assert.is(await hasBalance(), true);
  const { verify } = makeCustomers(world, workspaceId);
  await must(200, verify({ key, billing: { usage: '2.5' } }));
  await make(`${path}/adjustment`, { amount: '0.5', reason: 'counted too little' });
  const { billing } = (await must(200, by(cookie, 'get', `${PORTAL}/billing`))).body;
  assert.equal([billing.availableCredits, billing.usedCredits], ['102', '3']);
  assert.equal([billing.alerts, billing.externalIds], [undefined, undefined], "they are the seller's");
  const { grants } = (await must(200, by(cookie, 'get', `${PORTAL}/grants`))).body;
  assert.equal(columns(grants, 'name', 'credits').join(' '), ',100 trial,5');
  assert.not.ok(grants.some((one: object) => 'metadata' in one));
  await world.booked();
  const [from, to] = [-1, 1].map((days) => new Date(Date.now() + days * DAY_MS).toISOString().slice(0, 10));
  const statementPath = `${PORTAL}/statement?from=${from}&to=${to}`;
  const { statement } = (await must(200, by(cookie, 'get', statementPath))).body;
  assert.is(statement.closing.remaining, '102');
  const adjustment = statement.movements.find(({ kind }: { kind: string }) => kind === 'adjustment');
  assert.equal([adjustment.amount, adjustment.reason, adjustment.tokenId], ['0.5', 'counted too little', undefined]);
  const asCsv = await must(200, by(cookie, 'get', `${statementPath}&format=csv`));
  assert.match(asCsv.headers.get('content-type')!, 'text/csv');
  assert.match(asCsv.text, 'counted too little');
  assert.not.match(asCsv.text, /tok_/);

  const second = await newKey({ externalMeterId: 'acme', customerId: 'cus_other' });
  await remove(`/api/v1/workspace/${workspaceId}/api-key/${second.id}`);
  assert.is(await hasBalance(), false, 'also of a key that was deleted: its usage is in the balance');
  for (const what of ['billing', 'grants', 'statement'])
    await refused(40404, by(cookie, 'get', `${PORTAL}/${what}`), what);
  await refused(40404, by(await session(), 'get', `${PORTAL}/billing`), 'a link that names no record');
});

test('with the permission the customer rotates own keys, and the audit log names the link', async () => {
  const { id, key } = await newKey({ name: 'to rotate', metadata: { of: 'the team' } });
  const theirs = await newKey({ customerId: 'cus_other' });
  const elsewhere = await newKey({ workspaceId: await newWorkspace(world) });
  const pathOf = (akid: string) => `${PORTAL}/key/${akid}/rotate`;
  await refused(40301, by(await session(), 'post', pathOf(id), {}));

  const link = await newLink({ permissions: ['rotate'] });
  const cookie = cookieOf(await must(201, open(link.token)));
  assert.equal((await by(cookie, 'get', PORTAL)).body.portal.permissions, ['rotate']);
  const headers = { ...marked, 'Idempotency-Key': 'once' };
  const rotate = () => by(cookie, 'post', pathOf(id), { graceSeconds: 3600 }, headers);
  const { apiKey } = (await must(200, rotate())).body;
  assert.equal(Object.keys(apiKey).toSorted(), ['createdAt', 'enabled', 'id', 'key', 'maskedKey', 'name']);
  assert.is((await must(200, rotate())).body.apiKey.key, apiKey.key, 'a repeat makes no other');
  for (const akid of [theirs.id, elsewhere.id, 'x']) await refused(40403, by(cookie, 'post', pathOf(akid), {}));
  const { verify } = makeCustomers(world, workspaceId);
  for (const one of [apiKey.key, key, theirs.key, elsewhere.key])
    assert.is((await verify({ key: one })).body.status, 'VALID');
  const { operation, after, tokenId } = (await read(`/api/v1/audit-log?resourceId=${id}`)).at(-1);
  assert.equal([operation, after.linkTokenId], ['POST /api/v1/portal/key/{akid}/rotate', link.id]);
  assert.match(tokenId, /^tok_/);

  // Revoked, it changes nothing from that moment on, whatever is remembered of it.
  await must(200, by(cookie, 'get', PORTAL));
  await remove(`/api/v1/link-token/${link.token}`);
  await refused(40104, by(cookie, 'post', pathOf(id), {}));
  assert.is((await verify({ key: apiKey.key })).body.status, 'VALID');
});

test('a link gives a key at most 10 new secrets in an hour, and its refusals are not kept', async () => {
  const { id } = await newKey({ name: 'rotated without end' });
  const cookie = await session({ permissions: ['rotate'] });
  const rotate = (i: number) =>
    by(cookie, 'post', `${PORTAL}/key/${id}/rotate`, {}, { ...marked, 'Idempotency-Key': `${id}-${i}` });
  // The first of the ten is the one that the key was made with.
  const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => rotate(i)));
  assert.equal(codesOf(answers), [...Array<number>(9).fill(200), ...Array<number>(3).fill(42923)]);
  const late = answers.findIndex(({ status }) => status !== 200);
  const wait = Number(answers[late]!.headers.get('retry-after'));
  assert.ok(wait > 3_000 && wait <= 3_600, String(wait));
  await world.sql`update key_texts set created_at = created_at - interval '1 hour' where key_id = ${id}`;
  await must(200, rotate(late));
});

type Link = { id: string; token: string; expiresAt: number };

function open(link: string, headers: Record<string, string> = marked, url = world.api.url): Promise<Answer> {
  const sent = { 'X-Keytally-Link': link, ...headers };
  return world.call('post', url + SESSION, undefined, { token: null, headers: sent });
}

async function session(fields: object = {}): Promise<string> {
  return cookieOf(await must(201, open((await newLink(fields)).token)));
}

function newLink(fields: object = {}, token?: string): Promise<Link> {
  return callsOf(world, token).make('/api/v1/link-token', { workspaceId, customerId: CUSTOMER, ...fields });
}

const newKey = (fields: object) => make('/api/v1/api-key', { name: 'n', workspaceId, customerId: CUSTOMER, ...fields });

async function newBilling(externalMeterId: string, totalCredits = '1000'): Promise<string> {
  return (await make('/api/v1/customer-billing', { workspaceId, externalMeterId, totalCredits })).id;
}
