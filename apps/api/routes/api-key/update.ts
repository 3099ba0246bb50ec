import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { checkLimits, limits } from '../../../../shared/contract/limits.ts';
import { nullable, object } from '../../../../shared/contract/schema-kinds.ts';
import { allowedIps, externalMeterId, metadata, name, rateLimit } from '../../../../shared/contract/schemas.ts';
import { expiresAtInput, requireFuture } from '../../resources/expires-at.ts';
import { replaceGrants } from '../../resources/keys/key-scopes.ts';
import {
  apiKey,
  giveMeter,
  grants,
  keyParams,
  limitsValue,
  lockKey,
  metadataValue,
  readKey,
} from '../../resources/keys/keys.ts';
import { set } from '../../resources/patch.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'patch',
  path: '/api/v1/workspace/{id}/api-key/{akid}',
  tag: 'API keys',
  operationId: 'updateKey',
  summary: 'Change an API key; null clears a setting',
  description: 'Fields that are left out stay as they are. The change is in force before the answer.',
  permission: 'key:write',
  writes: true,
  params: keyParams,
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
  errors: [
    'workspace_forbidden',
    'key_not_found',
    'key_deleted',
    'key_metered',
    'expires_at_past',
    'unknown_scope',
    'quota_exceeded',
  ],

  async handle({ sql, params, body, caller, changed, audit, clock }) {
    const { shard: oldShard, deleted } = await lockKey(sql, caller, params);
    if (deleted) throw new ApiError('key_deleted');
    if (typeof body.expiresAt === 'number') requireFuture(body.expiresAt, clock.now());
    const before = await readKey(sql, params);
    const { scopes, metadata, limits, allowedIPs, externalMeterId, ...values } = body;
    checkLimits('limits', limits);
    const grants = scopes === undefined ? undefined : (scopes?.length ?? 0);
    const row = {
      ...values,
      metadata: metadataValue(sql, metadata),
      limits: limitsValue(sql, limits),
      allowedIps: allowedIPs,
      grants,
    };
    const assigned = set(sql, row);
    const shards = await giveMeter(sql, { ...params, shard: oldShard, meter: before.externalMeterId }, externalMeterId);
    await sql`update api_keys set ${assigned} where id = ${params.akid}`;
    const holder = { teamId: caller.teamId, workspaceId: params.id, keyId: params.akid };
    if (scopes !== undefined) await replaceGrants(sql, holder, scopes ?? []);
    const apiKey = await readKey(sql, params);
    for (const shard of shards) changed('key', params.akid, shard);
    audit('api_key', params.akid, before, apiKey);
    return { apiKey };
  },
});
