import { newId } from '../../../../shared/values/ids.ts';
import { hashKeyText, makeKeyText, maskKeyText, randomShard } from '../../../../shared/values/key-text.ts';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import { checkLimits } from '../../../../shared/contract/limits.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { requireFuture } from '../../resources/expires-at.ts';
import { replaceGrants } from '../../resources/keys/key-scopes.ts';
import {
  apiKeyWithText,
  DEFAULT_PREFIX,
  limitsValue,
  metadataValue,
  newKeyFields,
  readKey,
} from '../../resources/keys/keys.ts';
import { tellKeys } from '../../resources/keys/events.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'post',
  path: '/api/v1/api-key',
  tag: 'API keys',
  operationId: 'createKey',
  summary: 'Create an API key; only this answer contains the secret',
  description:
    'Makes a key and its secret. The service keeps a hash of it: store the secret, or rotate the key where it is lost.',
  permission: 'key:write',
  status: 201,
  writes: true,
  grows: true,
  body: object(newKeyFields),
  response: object({ apiKey: apiKeyWithText }),
  errors: ['workspace_forbidden', 'expires_at_past', 'unknown_scope'],

  async handle({ sql, body, caller, changed, audit, clock }) {
    const { workspaceId, externalMeterId, metadata } = body;
    checkLimits('limits', body.limits);
    await requireWorkspace(sql, caller, workspaceId, { hold: true });
    const [defaults] = await sql<[{ prefix: string | null; lifetimeSeconds: number | null }]>`
      select default_key_prefix as prefix, default_expiration as lifetime_seconds from workspaces where id = ${workspaceId}`;
    const now = clock.now();
    if (typeof body.expiresAt === 'number') requireFuture(body.expiresAt, now);
    const byDefault = defaults.lifetimeSeconds === null ? null : now + defaults.lifetimeSeconds * 1000;
    const expiresAt = body.expiresAt === undefined ? byDefault : body.expiresAt;
    const prefix = body.prefix ?? defaults.prefix ?? DEFAULT_PREFIX;

    const akid = newId('key');
    const shard = externalMeterId === undefined ? randomShard() : meterShard(workspaceId, externalMeterId);
    const text = makeKeyText(prefix, shard);
    await sql`
      insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, expires_at, customer_id,
                            external_meter_id, metadata, rate_limit_per_second, limits, allowed_ips, grants)
      values (${akid}, ${caller.teamId}, ${workspaceId}, ${shard}, ${body.name}, ${prefix}, ${maskKeyText(text)},
              ${body.enabled ?? true}, ${expiresAt}, ${body.customerId ?? null}, ${externalMeterId ?? null},
              ${metadataValue(sql, metadata) ?? null}, ${body.rateLimitPerSecond ?? null}, ${limitsValue(sql, body.limits) ?? null},
              ${body.allowedIPs ?? null}, ${body.scopes?.length ?? 0})`;
    await sql`insert into key_texts (hash, team_id, key_id) values (${hashKeyText(text)}, ${caller.teamId}, ${akid})`;
    await replaceGrants(sql, { teamId: caller.teamId, workspaceId, keyId: akid }, body.scopes ?? []);
    const made = await readKey(sql, { id: workspaceId, akid });
    changed('key', akid, shard);
    audit('api_key', akid, undefined, made);
    await tellKeys(sql, { type: 'key.created', teamId: caller.teamId, keys: [{ workspaceId, key: made }], atMs: now });
    return { apiKey: { ...made, key: text } };
  },
});
