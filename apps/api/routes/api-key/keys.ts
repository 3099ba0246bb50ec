import { Type } from 'typebox';
import { requirePermission } from '../../../../shared/auth/access-token.ts';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import { checkLimits, limits } from '../../../../shared/contract/limits.ts';
import { id, object, nullable } from '../../../../shared/contract/schema-kinds.ts';
import {
  customerId,
  externalMeterId,
  allowedIps,
  metadata,
  name,
  rateLimit,
  requireFuture,
  expiresAtInput,
} from '../../../../shared/contract/schemas.ts';
import { hashKeyText, makeKeyText, maskKeyText, randomShard } from '../../../../shared/values/key-text.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { holdWorkspaces, insertKeys, placeKey, prefixOf, replaceGrants } from '../../resources/keys/new-keys.ts';
import {
  apiKeyWithText,
  newKeyFields,
  readKey,
  apiKey,
  giveMeter,
  grants,
  keys,
  requireKey,
  type KeyRow,
} from '../../resources/keys/keys.ts';
import { billings, insertBilling } from '../../resources/billings/billings.ts';
import { startPlan } from '../../resources/plans/change.ts';
import { planErrors } from '../customer-billing/records.ts';
import { keyDefaults } from '../../resources/plans/plans.ts';
import { matching, set } from '../../resources/rows.ts';

export const createKey = route('post', '/api/v1/api-key', {
  summary: 'Create an API key; only this answer contains the secret',
  description:
    'Makes a key and its secret. The service keeps a hash of it: store the secret, or rotate the key where it is lost. What the request leaves out, the plan of its billing record says, then the workspace.',
  permission: 'key:write',
  status: 201,
  grows: true,
  body: object({
    ...newKeyFields,
    planId: Type.Optional({
      ...id('plan'),
      description:
        'makes the billing record of externalMeterId with this plan, where there is none, in the step that makes the key. Needs billing:write',
    }),
  }),
  response: object({ apiKey: apiKeyWithText }),
  errors: ['workspace_forbidden', 'expires_at_past', 'unknown_scope', ...planErrors],

  async handle({ sql, redis, body, caller, changed, clock, requestId }) {
    const { planId, ...given } = body;
    const { workspaceId, externalMeterId } = given;
    checkLimits('limits', given.limits);
    if (planId !== undefined) {
      requirePermission(caller, 'billing:write');
      await requireWorkspace(sql, caller, workspaceId, { hold: true });
      if (externalMeterId === undefined) throw invalidField('/externalMeterId', 'must be given with planId');
      const billed = { workspaceId, externalMeterId, totalMicros: 0, allowOverages: false };
      const made = await insertBilling(sql, caller, billed);
      const changing = { sql, redis, changed, maker: { ...caller, requestId } };
      const record = made && (await startPlan(changing, made, planId));
      if (record) billings.say(changed, { after: record });
    }
    const fields = { ...(await keyDefaults(sql, given)), ...given };
    const placed = placeKey(fields, await holdWorkspaces(sql, caller, [fields]), randomShard());
    const now = clock.now();
    if (typeof body.expiresAt === 'number') requireFuture(body.expiresAt, now);
    const { id: akid, shard } = placed;
    const text = makeKeyText(prefixOf(placed), shard);
    const stored = { hash: hashKeyText(text), home: shard, maskedKey: maskKeyText(text) };
    await insertKeys(sql, caller, [{ ...placed, text: stored }], { imported: false, now });
    const made = await readKey(sql, { id: workspaceId, akid });
    const apiKey = keys.say(changed, { after: made, step: { type: 'key.created', workspaceId } });
    return { apiKey: { ...apiKey, key: text } };
  },
});

export const listKeys = listRoute('/api/v1/workspace/{id}/api-keys', 'apiKeys', apiKey, {
  summary: 'List the API keys of a workspace, also deleted ones unless filtered out',
  description:
    'Pages follow by `cursor`, in the order in which the keys were made. With `search`, `enabled` or `deleted` a page may have few keys, or none, while `nextCursor` leads on.',
  permission: 'key:read',
  query: {
    search: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description: 'only keys with this text in their name, customerId or masked key, in any case',
      }),
    ),
    customerId: Type.Optional(customerId),
    externalMeterId: Type.Optional(externalMeterId),
    enabled: Type.Optional(Type.Boolean({ description: 'only keys that are enabled, or only those that are not' })),
    deleted: Type.Optional(Type.Boolean({ description: 'only keys that were deleted, or only those that were not' })),
  },

  async open({ sql, params, query, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const { search, customerId, externalMeterId, enabled, deleted } = query;
    const wanted = search?.toLowerCase();
    // No index leads to these, and one statement could read every key of the workspace.
    const isWanted = (row: KeyRow) =>
      (enabled === undefined || row.enabled === enabled) &&
      (deleted === undefined || row.deleted === deleted) &&
      (wanted === undefined ||
        [row.name, row.customerId, row.maskedKey].some((text) => text?.toLowerCase().includes(wanted)));
    const isListed = sql`workspace_id = ${params.id} and ${matching(sql, { customerId, externalMeterId })}`;
    return {
      read: (after, take) => keys.page(sql, isListed, after, take),
      present: (row) => (isWanted(row) ? keys.present(row) : undefined),
    };
  },
});

export const getKey = route('get', '/api/v1/workspace/{id}/api-key/{akid}', {
  summary: 'Get an API key, without its secret',
  description: 'Gives the settings of a key. No answer contains its secret again.',
  permission: 'key:read',
  response: object({ apiKey }),

  async handle({ sql, params, caller }) {
    return { apiKey: keys.present(await requireKey(sql, caller, params)) };
  },
});

export const updateKey = route('patch', '/api/v1/workspace/{id}/api-key/{akid}', {
  summary: 'Change an API key; null clears a setting',
  description: 'Fields that are left out stay as they are. The change is in force before the answer.',
  permission: 'key:write',
  body: object({
    name: Type.Optional(name),
    enabled: Type.Optional(Type.Boolean()),
    expiresAt: Type.Optional(nullable(expiresAtInput)),
    scopes: Type.Optional(nullable(grants)),
    metadata: Type.Optional(nullable(metadata)),
    rateLimitPerSecond: Type.Optional(nullable(rateLimit)),
    limits: Type.Optional(nullable(limits)),
    allowedIPs: Type.Optional(nullable(allowedIps)),
    externalMeterId: Type.Optional({
      ...externalMeterId,
      description: 'the meter of a key that has none; a key keeps its meter',
    }),
  }),
  response: object({ apiKey }),
  errors: ['key_deleted', 'key_metered', 'expires_at_past', 'unknown_scope', 'quota_exceeded'],

  async handle({ sql, params, body, caller, changed, clock }) {
    const before = await requireKey(sql, caller, params, { lock: true });
    if (before.deleted) throw new ApiError('key_deleted');
    if (typeof body.expiresAt === 'number') requireFuture(body.expiresAt, clock.now());
    const { scopes, externalMeterId, ...values } = body;
    checkLimits('limits', values.limits);
    const assigned = set(sql, { ...values, grants: scopes === undefined ? undefined : (scopes?.length ?? 0) });
    const shards = await giveMeter(sql, params.id, before, externalMeterId);
    await sql`update api_keys set ${assigned} where id = ${params.akid}`;
    const holder = { teamId: caller.teamId, workspaceId: params.id, keyId: params.akid };
    if (scopes !== undefined) await replaceGrants(sql, holder, scopes ?? []);
    return { apiKey: keys.say(changed, { before, after: await readKey(sql, params), shards }) };
  },
});

export const deleteKey = route('delete', '/api/v1/workspace/{id}/api-key/{akid}', {
  summary: 'Delete an API key for good; its record stays readable',
  description:
    'Its secret gets DELETED before the answer. The record keeps its id. Only an import of its secret with `restore` brings it back.',
  permission: 'key:write',
  response: object({ apiKey }),

  async handle({ sql, params, caller, changed }) {
    const before = await requireKey(sql, caller, params, { lock: true });
    // Also for a key that was deleted before: that deletion may be stored but not yet in force.
    if (before.deleted) return { apiKey: keys.say(changed, { before, after: before }) };
    const after = await keys.remove(sql, before.id);
    return { apiKey: keys.say(changed, { before, after, step: { type: 'key.deleted', workspaceId: params.id } }) };
  },
});
