import { randomBytes } from 'node:crypto';
import type { Permission } from '../../../../shared/contract/caller.ts';
import { errors } from '../../../../shared/contract/errors.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { request, type RequestOptions } from '../../../../tests/helpers/request.ts';
import type { World } from '../../../../tests/helpers/world.ts';
import type { ApiRoute } from '../../http/route.ts';
import { routes } from '../../routes/index.ts';
import { callsOf, must, once, type Answer } from './calls.ts';

/** The resources of one team that requests name, and the error code for one that is unknown or belongs to somebody else. */
export const unknownThing = {
  workspace: 40302,
  scope: 40402,
  key: 40403,
  keyText: 0,
  billing: 40404,
  grant: 40430,
  schedule: 40431,
  plan: 40432,
  linkToken: 40406,
  token: 40405,
  jwt: 0,
  holdToCapture: 40450,
  holdToRelease: 40450,
  holdToExtend: 40450,
  webhook: 40460,
  delivery: 40461,
  meter: 40470,
  source: 40480,
  payment: 40481,
};

export type Things = Record<keyof typeof unknownThing, string>;

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
  /** The answer to another team's token. Left out where that is the error code that `unknownThing` has for the resource. */
  foreign?: Refusal;
};

/** What a good request has besides the resources that its path names, and which answers it gets if not those that follow from them. */
type Given = Partial<Omit<MatrixRequest, 'make'>> & {
  body?: object | ((things: Things) => object);
  query?: (things: Things) => Record<string, string>;
};

const forbidden = { code: 40302, message: errors.workspace_forbidden[1] };
const METER = 'meter';
const IN_2100 = Date.UTC(2100, 0);
// What a batch debited, a cancel of the same token gives back.
const BATCHED = 'batched';
const CLOSING_MONTH = '2099-12';
const RULE = { event: 'invoice.paid', currency: 'usd', creditsPerUnit: '1' };
const REPRESENTATION = 'documents';
const granted = [{ representation: REPRESENTATION, read: true }];
const tokenPermissions: Permission[] = ['key:read'];

const withWorkspace = ({ workspace }: Things) => ({ workspaceId: workspace });
const nothing = (body: object) => ({ limited: { body }, foreign: { body } });
const notFound = { status: 'INVALID', reason: 'NOT_FOUND' };
const ofHold = { limited: 40450 };

/** What the paths name, by the word before it, and the answer where a token is limited to another workspace. */
const namedBy: Record<string, [thing: keyof Things, limited: number]> = {
  workspace: ['workspace', 40302],
  'api-key': ['key', 40302],
  scope: ['scope', 40302],
  'customer-billing': ['billing', 40404],
  usage: ['billing', 40404],
  grant: ['grant', 40404],
  'grant-schedule': ['schedule', 40404],
  plan: ['plan', 40302],
  'link-token': ['linkToken', 40406],
  'access-token': ['token', 40405],
  webhook: ['webhook', 40460],
  delivery: ['delivery', 40460],
  'meter-destination': ['meter', 40470],
  'payment-source': ['source', 40480],
  payment: ['payment', 40480],
};

const given: Record<string, Given> = {
  'post /api/v1/api-key/verify': {
    body: ({ keyText }) => ({ key: keyText, billing: { usage: '1' } }),
    ...nothing(notFound),
  },
  'post /api/v1/api-key/verify/batch': {
    body: ({ keyText }) => ({ verifications: [{ key: keyText, billing: { usage: '1' }, idempotencyKey: BATCHED }] }),
    ...nothing({ results: [notFound] }),
  },
  'post /api/v1/api-key/verify/cancel': {
    body: ({ keyText }) => ({ key: keyText, idempotencyKey: BATCHED }),
    limited: 40451,
    foreign: 40451,
  },
  'post /api/v1/api-key': {
    body: ({ workspace }) => ({ name: 'n', workspaceId: workspace, scopes: granted, externalMeterId: METER }),
  },
  'post /api/v1/api-key/import': {
    body: ({ workspace }) => ({
      keys: [{ name: 'n', workspaceId: workspace, key: `sk-${randomBytes(16).toString('hex')}` }],
    }),
    ...nothing({ results: [{ error: forbidden }] }),
  },
  'post /api/v1/api-key/leaked': {
    body: ({ keyText }) => ({ text: `a log line with ${keyText}` }),
    limited: 'their own',
    foreign: 'their own',
  },
  'patch /api/v1/workspace/{id}/api-key/{akid}': { body: { name: 'changed', scopes: granted } },

  'post /api/v1/workspace': { body: { name: 'n' } },
  'get /api/v1/workspace': { limited: 'their own' },
  'patch /api/v1/workspace/{id}': { body: { defaultRateLimitPerSecond: 7 } },
  'post /api/v1/workspace/{id}/close': { body: { month: CLOSING_MONTH, acceptDifferences: true } },
  'post /api/v1/workspace/{id}/scope': { body: { name: 'n', representation: 'new' } },
  'patch /api/v1/workspace/{id}/scope/{sid}': { body: { name: 'changed' } },

  'post /api/v1/customer-billing': { body: (things) => ({ ...withWorkspace(things), externalMeterId: 'new' }) },
  'get /api/v1/customer-billing': { query: (things) => ({ ...withWorkspace(things), externalMeterId: METER }) },
  'post /api/v1/customer-billing/refill': {
    body: (things) => ({ ...withWorkspace(things), externalMeterId: METER, refill: 5 }),
  },
  'post /api/v1/customer-billing/{bid}/adjustment': { body: { amount: '2', reason: 'r' } },
  'get /api/v1/statements': { query: (things) => ({ ...withWorkspace(things), from: '2026-01-01', to: '2026-12-31' }) },
  'get /api/v1/customer-billing/{bid}/statement': { query: () => ({ from: '2026-01-01', to: '2026-12-31' }) },
  'patch /api/v1/customer-billing/{bid}': { body: { allowOverages: true } },
  'post /api/v1/customer-billing/{bid}/grant': { body: { credits: '2' } },
  'post /api/v1/customer-billing/{bid}/grant/{gid}/void': { body: { reason: 'r' } },
  'post /api/v1/customer-billing/{bid}/grant-schedule': { body: { credits: '2', every: 'month', anchorAt: IN_2100 } },
  'post /api/v1/workspace/{id}/plan': { body: { name: 'n', grants: [{ credits: '2' }] } },
  'patch /api/v1/workspace/{id}/plan/{pid}': { body: { name: 'changed' } },
  'get /api/v1/usage': { query: withWorkspace },
  'get /api/v1/verifications': { query: (things) => ({ ...withWorkspace(things), groupBy: 'status,reason' }) },
  'get /api/v1/verifications/recent': { query: ({ key }) => ({ apiKeyId: key }), limited: 40403 },
  'post /api/v1/usage/capture': { body: ({ holdToCapture }) => ({ holdId: holdToCapture, usage: '1' }), ...ofHold },
  'post /api/v1/usage/release': { body: ({ holdToRelease }) => ({ holdId: holdToRelease }), ...ofHold },
  'post /api/v1/usage/extend': { body: ({ holdToExtend }) => ({ holdId: holdToExtend, expiresIn: 3600 }), ...ofHold },

  // JWTs belong to the team, not to a workspace.
  'post /api/v1/jwt': { body: { payload: {} }, limited: 'their own' },
  'post /api/v1/jwt/verify': {
    body: ({ jwt }) => ({ jwt }),
    limited: 'their own',
    foreign: { body: { status: 'INVALID' } },
  },
  'post /api/v1/jwt/revoke': { body: ({ jwt }) => ({ jwt }), foreign: 40017 },
  'get /api/v1/jwt/settings': { limited: 'their own' },
  'patch /api/v1/jwt/settings': { body: { sharedKeySet: false } },

  'post /api/v1/link-token': { body: (things) => ({ ...withWorkspace(things), customerId: 'c' }) },
  'get /api/v1/link-token/{token}': nothing({ valid: false }),
  'post /api/v1/access-token': {
    body: ({ workspace }) => ({ name: 'n', permissions: tokenPermissions, workspaceIds: [workspace] }),
    limited: 40303,
  },
  'get /api/v1/access-token': { limited: 'their own' },
  'post /api/v1/webhook': {
    body: (things) => ({ ...withWorkspace(things), url: 'https://hooks.example.com', events: ['key.created'] }),
  },
  'get /api/v1/webhook': { limited: 'their own' },
  'patch /api/v1/webhook/{wid}': { body: { events: ['key.deleted'] } },
  'post /api/v1/meter-destination': { body: (things) => ({ ...withWorkspace(things), kind: 'openmeter', name: 'n' }) },
  'get /api/v1/meter-destination': { limited: 'their own' },
  'patch /api/v1/meter-destination/{mid}': { body: { name: 'changed' } },
  'get /api/v1/meter-destination/{mid}/preview': { query: () => ({ day: '2026-01-01' }) },
  'get /api/v1/meter-destination/{mid}/proof': { query: () => ({ month: '2026-01' }) },
  'post /api/v1/payment-source': {
    body: (things) => ({ ...withWorkspace(things), kind: 'stripe', name: 'n', rules: [RULE] }),
  },
  'get /api/v1/payment-source': { limited: 'their own' },
  'patch /api/v1/payment-source/{pid}': { body: { name: 'changed' } },
  'get /api/v1/quota': { limited: 'their own' },
};

/** The operations that need a token. */
export const guarded = routes.filter((route) => route.permission);

/** What `requests` calls an operation. */
export const nameOf = (route: ApiRoute) => `${route.method} ${route.path}`;

/** A good request of every operation that needs a token. */
export const requests: Record<string, MatrixRequest> = Object.fromEntries(
  guarded.map((route) => [nameOf(route), requestOf(route.path, given[nameOf(route)] ?? {})]),
);

function requestOf(path: string, { body, query, ...answers }: Given): MatrixRequest {
  const inPath = [...path.matchAll(/([^/]+)\/\{(\w+)\}/g)].map(([, word, name]) => ({
    name: name!,
    of: namedBy[word!]!,
  }));
  return {
    make: (things) => ({
      path: Object.fromEntries(inPath.map(({ name, of: [thing] }) => [name, things[thing]])),
      ...(query && { query: query(things) }),
      ...(body && { body: typeof body === 'function' ? (body as (things: Things) => object)(things) : body }),
    }),
    limited: inPath[0]?.of[1] ?? 40302,
    ...answers,
  };
}

/** The path and the query of a request. */
export function urlOf(route: ApiRoute, { path = {}, query }: MadeRequest): string {
  const filled = route.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name]!));
  return query ? `${filled}?${new URLSearchParams(query).toString()}` : filled;
}

/** Sends a request to every server that serves its operation. */
export function sendTo(world: World, route: ApiRoute, made: MadeRequest, options: RequestOptions): Promise<Answer[]> {
  const servers = [world.api.url, ...(route.permission === 'key:verify' ? [world.verify!.url] : [])];
  const headers = route.idempotencyKeyRequired ? once() : {};
  const sent = { headers, ...(options.raw === undefined && { body: made.body }), ...options };
  return Promise.all(servers.map((url) => request(url + urlOf(route, made), route.method, sent)));
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
  const make = (path: string, body: object) => callsOf(world, token).make(path, body, once());
  const { id: workspace } = await make('/api/v1/workspace', { name: 'w' });
  const scope = await make(`/api/v1/workspace/${workspace}/scope`, { name: 's', representation: REPRESENTATION });
  const fields = { workspaceId: workspace, externalMeterId: METER };
  const { id: billing } = await make('/api/v1/customer-billing', { ...fields, totalCredits: '100' });
  const grant = await make(`/api/v1/customer-billing/${billing}/grant`, { credits: '1' });
  const yearly = { credits: '1', every: 'year', anchorAt: IN_2100 };
  const schedule = await make(`/api/v1/customer-billing/${billing}/grant-schedule`, yearly);
  const plan = await make(`/api/v1/workspace/${workspace}/plan`, { name: 'p' });
  const key = await make('/api/v1/api-key', { name: 'k', ...fields });
  const link = await make('/api/v1/link-token', { workspaceId: workspace, customerId: 'c' });
  const spare = await make('/api/v1/access-token', { name: 'spare', permissions: ['key:read'] });
  const jwt = await make('/api/v1/jwt', { payload: {} });
  const told = { url: 'https://hooks.example.com', events: ['month.closed'], workspaceId: workspace };
  const webhook = await make('/api/v1/webhook', told);
  const delivery = await make(`/api/v1/webhook/${webhook.id}/test`, {});
  const meter = await make('/api/v1/meter-destination', { workspaceId: workspace, kind: 'openmeter', name: 'm' });
  const source = await make('/api/v1/payment-source', {
    workspaceId: workspace,
    kind: 'stripe',
    name: 's',
    rules: [RULE],
  });
  const payment = newId('pay');
  await world.sql`
    insert into payments (id, team_id, workspace_id, source_id, object_id, event, state, amount, currency, paid_at)
    select ${payment}, team_id, workspace_id, id, 'in_1', 'invoice.paid', 'NO_RULE', 1, 'usd', now() from payment_sources
    where id = ${source.id}`;
  // A month that is being closed, long from now, after one that no job looks at: so none closes it.
  await world.sql`
    insert into workspace_months (workspace_id, month, team_id, timezone, start_ms, end_ms, start_day, end_day, looked_at)
    select id, month, team_id, 'UTC', ${IN_2100}, ${IN_2100}, '2020-02-01', '2020-03-01', looked_at
    from workspaces, (values ('2099-11', 'infinity'::timestamptz), (${CLOSING_MONTH}, null)) as months (month, looked_at)
    where id = ${workspace}`;
  // One event, so that the books are not empty.
  const verify = (body: object, headers = once()) =>
    world.call('post', `${world.verify!.url}/api/v1/api-key/verify`, body, { token, headers });
  await must(200, verify({ key: key.key }));
  // Of a record of their own: requests change the other one, and then its account has a moment, which is an event, too.
  const ofHolds = { workspaceId: workspace, externalMeterId: 'holds' };
  await make('/api/v1/customer-billing', { ...ofHolds, totalCredits: '100' });
  const { key: holding } = await make('/api/v1/api-key', { name: 'k', ...ofHolds });
  const hold = async () => {
    const body = { key: holding, billing: { usage: '1', hold: { expiresIn: 3600 } } };
    return (await must(200, verify(body))).body.hold.id as string;
  };
  return {
    workspace,
    scope: scope.id,
    key: key.id,
    keyText: key.key,
    billing,
    grant: grant.id,
    schedule: schedule.id,
    plan: plan.id,
    linkToken: link.token,
    token: spare.id,
    jwt,
    webhook: webhook.id,
    delivery: delivery.id,
    meter: meter.id,
    source: source.id,
    payment,
    holdToCapture: await hold(),
    holdToRelease: await hold(),
    holdToExtend: await hold(),
  };
}
