import { randomBytes } from 'node:crypto';
import type { Permission } from '../../../../shared/contract/caller.ts';
import { errors } from '../../../../shared/contract/errors.ts';
import { once, type World } from '../../../../tests/helpers/world.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import type { ApiRoute } from '../../http/route.ts';
import { routes } from '../../routes/index.ts';

/** The resources of one team that requests name. */
export type Things = {
  workspace: string;
  scope: string;
  key: string;
  keyText: string;
  billing: string;
  grant: string;
  schedule: string;
  linkToken: string;
  token: string;
  jwt: string;
  holdToCapture: string;
  holdToRelease: string;
  holdToExtend: string;
  webhook: string;
  delivery: string;
};

/**
 * The answer that a token must get when it may not see what the request names:
 * - a number: this error code, such as 40302;
 * - a body: a success that tells nothing, such as INVALID;
 * - 'their own': a success that concerns the caller's own resources only, such as a list.
 */
export type Refusal = number | { body: unknown } | 'their own';

export type MadeRequest = { path?: Record<string, string>; query?: Record<string, string>; body?: unknown };

export type MatrixRequest = {
  /** Makes a request that succeeds. For another team's token, the matrix replaces each resource that this function reads. */
  make(things: Things): MadeRequest;
  /** The answer to a token of the same team that is limited (`workspaceIds`) to another workspace. */
  limited: Refusal;
  /** The answer to another team's token. Leave it out where that is the error code that `unknownThing` has for the resource. */
  foreign?: Refusal;
};

/** The error code for a resource that is unknown or belongs to somebody else. */
export const unknownThing: Record<keyof Things, number> = {
  workspace: 40302,
  scope: 40402,
  key: 40403,
  keyText: 0,
  billing: 40404,
  grant: 40430,
  schedule: 40431,
  linkToken: 40406,
  token: 40405,
  jwt: 0,
  holdToCapture: 40450,
  holdToRelease: 40450,
  holdToExtend: 40450,
  webhook: 40460,
  delivery: 40461,
};

const forbidden = { code: 40302, message: errors.workspace_forbidden[1] };
const METER = 'meter';
const IN_2100 = Date.UTC(2100, 0);
// What a batch debited, a cancel of the same token gives back.
const BATCHED = 'batched';
const CLOSING_MONTH = '2099-12';
const REPRESENTATION = 'documents';
const granted = [{ representation: REPRESENTATION, read: true }];
const tokenPermissions: Permission[] = ['key:read'];

const ofWorkspace = ({ workspace }: Things) => ({ path: { id: workspace } });
const ofScope = ({ workspace, scope }: Things) => ({ path: { id: workspace, sid: scope } });
const ofKey = ({ workspace, key }: Things) => ({ path: { id: workspace, akid: key } });
const ofBilling = ({ billing }: Things) => ({ path: { bid: billing } });
const ofSchedule = ({ billing, schedule }: Things) => ({ path: { bid: billing, sid: schedule } });
const ofWebhook = ({ webhook }: Things) => ({ path: { wid: webhook } });
const ofGrant = ({ billing, grant }: Things) => ({ path: { bid: billing, gid: grant } });

/** A good request of every operation that needs a token. The matrix fails when one is missing. */
export const requests: Record<string, MatrixRequest> = {
  'post /api/v1/api-key/verify': {
    make: ({ keyText }) => ({ body: { key: keyText, billing: { usage: '1' } } }),
    limited: { body: { status: 'INVALID', reason: 'NOT_FOUND' } },
    foreign: { body: { status: 'INVALID', reason: 'NOT_FOUND' } },
  },
  'post /api/v1/api-key/verify/batch': {
    make: ({ keyText }) => ({
      body: { verifications: [{ key: keyText, billing: { usage: '1' }, idempotencyKey: BATCHED }] },
    }),
    limited: { body: { results: [{ status: 'INVALID', reason: 'NOT_FOUND' }] } },
    foreign: { body: { results: [{ status: 'INVALID', reason: 'NOT_FOUND' }] } },
  },
  'post /api/v1/api-key/verify/cancel': {
    make: ({ keyText }) => ({ body: { key: keyText, idempotencyKey: BATCHED } }),
    limited: 40451,
    foreign: 40451,
  },
  'post /api/v1/api-key': {
    make: ({ workspace }) => ({
      body: { name: 'n', workspaceId: workspace, scopes: granted, externalMeterId: METER },
    }),
    limited: 40302,
  },
  'post /api/v1/api-key/import': {
    make: ({ workspace }) => ({
      body: { keys: [{ name: 'n', workspaceId: workspace, key: `sk-${randomBytes(16).toString('hex')}` }] },
    }),
    limited: { body: { results: [{ error: forbidden }] } },
    foreign: { body: { results: [{ error: forbidden }] } },
  },
  'post /api/v1/api-key/leaked': {
    make: ({ keyText }) => ({ body: { text: `a log line with ${keyText}` } }),
    limited: 'their own',
    foreign: 'their own',
  },
  'get /api/v1/workspace/{id}/api-keys': { make: ofWorkspace, limited: 40302 },
  'get /api/v1/workspace/{id}/api-key/{akid}': { make: ofKey, limited: 40302 },
  'patch /api/v1/workspace/{id}/api-key/{akid}': {
    make: (things) => ({ ...ofKey(things), body: { name: 'changed', scopes: granted } }),
    limited: 40302,
  },
  'post /api/v1/workspace/{id}/api-key/{akid}/rotate': { make: ofKey, limited: 40302 },
  'delete /api/v1/workspace/{id}/api-key/{akid}': { make: ofKey, limited: 40302 },

  'post /api/v1/workspace': { make: () => ({ body: { name: 'n' } }), limited: 40302 },
  'get /api/v1/workspace': { make: () => ({}), limited: 'their own' },
  'get /api/v1/workspace/{id}': { make: ofWorkspace, limited: 40302 },
  'get /api/v1/workspace/{id}/proof': { make: ofWorkspace, limited: 40302 },
  'patch /api/v1/workspace/{id}': {
    make: (things) => ({ ...ofWorkspace(things), body: { defaultRateLimitPerSecond: 7 } }),
    limited: 40302,
  },
  'post /api/v1/workspace/{id}/close': {
    make: (things) => ({ ...ofWorkspace(things), body: { month: CLOSING_MONTH, acceptDifferences: true } }),
    limited: 40302,
  },
  'delete /api/v1/workspace/{id}': { make: ofWorkspace, limited: 40302 },

  'post /api/v1/workspace/{id}/scope': {
    make: (things) => ({ ...ofWorkspace(things), body: { name: 'n', representation: 'new' } }),
    limited: 40302,
  },
  'get /api/v1/workspace/{id}/scopes': { make: ofWorkspace, limited: 40302 },
  'get /api/v1/workspace/{id}/scope/{sid}': { make: ofScope, limited: 40302 },
  'patch /api/v1/workspace/{id}/scope/{sid}': {
    make: (things) => ({ ...ofScope(things), body: { name: 'changed' } }),
    limited: 40302,
  },
  'delete /api/v1/workspace/{id}/scope/{sid}': { make: ofScope, limited: 40302 },

  'post /api/v1/customer-billing': {
    make: ({ workspace }) => ({ body: { workspaceId: workspace, externalMeterId: 'new' } }),
    limited: 40302,
  },
  'get /api/v1/workspace/{id}/customer-billings': { make: ofWorkspace, limited: 40302 },
  'get /api/v1/customer-billing': {
    make: ({ workspace }) => ({ query: { workspaceId: workspace, externalMeterId: METER } }),
    limited: 40302,
  },
  'post /api/v1/customer-billing/refill': {
    make: ({ workspace }) => ({ body: { workspaceId: workspace, externalMeterId: METER, refill: 5 } }),
    limited: 40302,
  },
  'post /api/v1/customer-billing/{bid}/adjustment': {
    make: (things) => ({ ...ofBilling(things), body: { amount: '2', reason: 'r' } }),
    limited: 40404,
  },
  'get /api/v1/statements': {
    make: ({ workspace }) => ({ query: { workspaceId: workspace, from: '2026-01-01', to: '2026-12-31' } }),
    limited: 40302,
  },
  'get /api/v1/customer-billing/{bid}/statement': {
    make: (things) => ({ ...ofBilling(things), query: { from: '2026-01-01', to: '2026-12-31' } }),
    limited: 40404,
  },
  'get /api/v1/customer-billing/{bid}/reconciliation': { make: ofBilling, limited: 40404 },
  'get /api/v1/customer-billing/{bid}': { make: ofBilling, limited: 40404 },
  'patch /api/v1/customer-billing/{bid}': {
    make: (things) => ({ ...ofBilling(things), body: { allowOverages: true } }),
    limited: 40404,
  },
  'get /api/v1/customer-billing/{bid}/ledger': { make: ofBilling, limited: 40404 },
  'post /api/v1/customer-billing/{bid}/grant': {
    make: (things) => ({ ...ofBilling(things), body: { credits: '2' } }),
    limited: 40404,
  },
  'get /api/v1/customer-billing/{bid}/grants': { make: ofBilling, limited: 40404 },
  'get /api/v1/customer-billing/{bid}/grant/{gid}': { make: ofGrant, limited: 40404 },
  'post /api/v1/customer-billing/{bid}/grant/{gid}/void': {
    make: (things) => ({ ...ofGrant(things), body: { reason: 'r' } }),
    limited: 40404,
  },
  'get /api/v1/customer-billing/{bid}/alerts': { make: ofBilling, limited: 40404 },
  'get /api/v1/customer-billing/{bid}/holds': { make: ofBilling, limited: 40404 },
  'post /api/v1/customer-billing/{bid}/grant-schedule': {
    make: (things) => ({ ...ofBilling(things), body: { credits: '2', every: 'month', anchorAt: IN_2100 } }),
    limited: 40404,
  },
  'get /api/v1/customer-billing/{bid}/grant-schedules': { make: ofBilling, limited: 40404 },
  'delete /api/v1/customer-billing/{bid}/grant-schedule/{sid}': { make: ofSchedule, limited: 40404 },
  'get /api/v1/usage/{bid}': { make: ofBilling, limited: 40404 },
  'get /api/v1/usage': { make: ({ workspace }) => ({ query: { workspaceId: workspace } }), limited: 40302 },
  'get /api/v1/verifications': {
    make: ({ workspace }) => ({ query: { workspaceId: workspace, groupBy: 'status,reason' } }),
    limited: 40302,
  },
  'get /api/v1/verifications/recent': { make: ({ key }) => ({ query: { apiKeyId: key } }), limited: 40403 },
  'post /api/v1/usage/capture': {
    make: ({ holdToCapture }) => ({ body: { holdId: holdToCapture, usage: '1' } }),
    limited: 40450,
  },
  'post /api/v1/usage/release': {
    make: ({ holdToRelease }) => ({ body: { holdId: holdToRelease } }),
    limited: 40450,
  },
  'post /api/v1/usage/extend': {
    make: ({ holdToExtend }) => ({ body: { holdId: holdToExtend, expiresIn: 3600 } }),
    limited: 40450,
  },

  // JWTs belong to the team, not to a workspace.
  'post /api/v1/jwt': { make: () => ({ body: { payload: {} } }), limited: 'their own' },
  'post /api/v1/jwt/verify': {
    make: ({ jwt }) => ({ body: { jwt } }),
    limited: 'their own',
    foreign: { body: { status: 'INVALID' } },
  },
  'post /api/v1/jwt/revoke': { make: ({ jwt }) => ({ body: { jwt } }), limited: 40302, foreign: 40017 },
  'post /api/v1/jwt/rotate': { make: () => ({}), limited: 40302 },
  'get /api/v1/jwt/settings': { make: () => ({}), limited: 'their own' },
  'patch /api/v1/jwt/settings': { make: () => ({ body: { sharedKeySet: false } }), limited: 40302 },

  'post /api/v1/link-token': {
    make: ({ workspace }) => ({ body: { workspaceId: workspace, customerId: 'c' } }),
    limited: 40302,
  },
  'get /api/v1/link-token/{token}': {
    make: ({ linkToken }) => ({ path: { token: linkToken } }),
    limited: { body: { valid: false } },
    foreign: { body: { valid: false } },
  },
  'delete /api/v1/link-token/{token}': {
    make: ({ linkToken }) => ({ path: { token: linkToken } }),
    limited: 40406,
  },

  'post /api/v1/access-token': {
    make: ({ workspace }) => ({ body: { name: 'n', permissions: tokenPermissions, workspaceIds: [workspace] } }),
    limited: 40303,
    foreign: 40008,
  },
  'get /api/v1/access-token/{id}': { make: ({ token }) => ({ path: { id: token } }), limited: 40405 },
  'get /api/v1/access-token': { make: () => ({}), limited: 'their own' },
  'post /api/v1/webhook': {
    make: ({ workspace }) => ({
      body: { url: 'https://hooks.example.com', events: ['key.created'], workspaceId: workspace },
    }),
    limited: 40302,
  },
  'get /api/v1/webhook': { make: () => ({}), limited: 'their own' },
  'get /api/v1/webhook/{wid}': { make: ofWebhook, limited: 40460 },
  'get /api/v1/webhook/{wid}/deliveries': { make: ofWebhook, limited: 40460 },
  'patch /api/v1/webhook/{wid}': {
    make: (things) => ({ ...ofWebhook(things), body: { events: ['key.deleted'] } }),
    limited: 40460,
  },
  'post /api/v1/webhook/{wid}/rotate': { make: ofWebhook, limited: 40460 },
  'post /api/v1/webhook/{wid}/test': { make: ofWebhook, limited: 40460 },
  'post /api/v1/webhook/{wid}/delivery/{did}/redeliver': {
    make: ({ webhook, delivery }) => ({ path: { wid: webhook, did: delivery } }),
    limited: 40460,
  },
  'delete /api/v1/webhook/{wid}': { make: ofWebhook, limited: 40460 },
  'get /api/v1/quota': { make: () => ({}), limited: 'their own' },
  'get /api/v1/audit-log': { make: () => ({}), limited: 40302 },
  'delete /api/v1/access-token/{id}': { make: ({ token }) => ({ path: { id: token } }), limited: 40405 },
};

/** The operations that need a token. */
export const guarded = routes.filter((route) => route.permission);

/** What `requests` calls an operation. */
export const nameOf = (route: ApiRoute) => `${route.method} ${route.path}`;

/** The path and the query of a request. */
export function urlOf(route: ApiRoute, { path = {}, query }: MadeRequest): string {
  const filled = route.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name]!));
  return query ? `${filled}?${new URLSearchParams(query).toString()}` : filled;
}

/** Which of the resources a request names. */
export function thingsReadBy(make: MatrixRequest['make'], things: Things): (keyof Things)[] {
  const read = new Set<keyof Things>();
  make(new Proxy(things, { get: (target, name: keyof Things) => (read.add(name), target[name]) }));
  return [...read];
}

/** Puts routes in an order in which each finds what it needs: deletions come last, that of the workspace after all others. */
export function inUsableOrder<Route extends { method: string; path: string }>(routes: Route[]): Route[] {
  const rank = ({ method, path }: Route) =>
    method !== 'delete' ? 0 : `${method} ${path}` === 'delete /api/v1/workspace/{id}' ? 2 : 1;
  return routes.toSorted((a, b) => rank(a) - rank(b));
}

/** Creates one of each resource in a new workspace of the token's team. Both teams use the same names. */
export async function makeThings(world: World, token: string): Promise<Things> {
  const make = async (path: string, body: object) => {
    const headers = once();
    return (await must(201, world.call('post', path, body, { token, headers }))).body;
  };
  const workspace = (await make('/api/v1/workspace', { name: 'w' })).workspace.id;
  const scope = await make(`/api/v1/workspace/${workspace}/scope`, { name: 's', representation: REPRESENTATION });
  const fields = { workspaceId: workspace, externalMeterId: METER };
  const billing = await make('/api/v1/customer-billing', { ...fields, totalCredits: '100' });
  const grant = await make(`/api/v1/customer-billing/${billing.billing.id}/grant`, { credits: '1' });
  const plan = { credits: '1', every: 'year', anchorAt: IN_2100 };
  const schedule = await make(`/api/v1/customer-billing/${billing.billing.id}/grant-schedule`, plan);
  const key = await make('/api/v1/api-key', { name: 'k', ...fields });
  const link = await make('/api/v1/link-token', { workspaceId: workspace, customerId: 'c' });
  const spare = await make('/api/v1/access-token', { name: 'spare', permissions: ['key:read'] });
  const { jwt } = await make('/api/v1/jwt', { payload: {} });
  const told = { url: 'https://hooks.example.com', events: ['month.closed'], workspaceId: workspace };
  const { webhook } = await make('/api/v1/webhook', told);
  const { delivery } = await make(`/api/v1/webhook/${webhook.id}/test`, {});
  // A month that is being closed, long from now, after one that no job looks at: so none closes it.
  await world.sql`
    insert into workspace_months (workspace_id, month, team_id, timezone, start_ms, end_ms, start_day, end_day, looked_at)
    select id, month, team_id, 'UTC', ${IN_2100}, ${IN_2100}, '2020-02-01', '2020-03-01', looked_at
    from workspaces, (values ('2099-11', 'infinity'::timestamptz), (${CLOSING_MONTH}, null)) as months (month, looked_at)
    where id = ${workspace}`;
  // One event, so that the books are not empty.
  const verify = (body: object, headers = once()) =>
    world.call('post', `${world.verify!.url}/api/v1/api-key/verify`, body, { token, headers });
  await must(200, verify({ key: key.apiKey.key }));
  // Of a record of their own: requests change the other one, and then its account turns, which is an event, too.
  const ofHolds = { workspaceId: workspace, externalMeterId: 'holds' };
  await make('/api/v1/customer-billing', { ...ofHolds, totalCredits: '100' });
  const holding = (await make('/api/v1/api-key', { name: 'k', ...ofHolds })).apiKey.key;
  const hold = async () => {
    const body = { key: holding, billing: { usage: '1', hold: { expiresIn: 3600 } } };
    return (await must(200, verify(body))).body.hold.id as string;
  };
  return {
    workspace,
    scope: scope.scope.id,
    key: key.apiKey.id,
    keyText: key.apiKey.key,
    billing: billing.billing.id,
    grant: grant.grant.id,
    schedule: schedule.grantSchedule.id,
    linkToken: link.linkToken.token,
    token: spare.accessToken.id,
    jwt,
    webhook: webhook.id,
    delivery: delivery.id,
    holdToCapture: await hold(),
    holdToRelease: await hold(),
    holdToExtend: await hold(),
  };
}
