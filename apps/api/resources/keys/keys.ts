import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { limits } from '../../../../shared/contract/limits.ts';
import {
  id,
  instant,
  named,
  nullable,
  object,
  secretText,
  timestamp,
  plainText,
} from '../../../../shared/contract/schema-kinds.ts';
import {
  allowedIps,
  answeredScopes,
  customerId,
  externalMeterId,
  metadata,
  MOST_SCOPES_OF_KEY,
  name,
  prefix,
  rateLimit,
  scopeEntryInput,
  expiresAtInput,
} from '../../../../shared/contract/schemas.ts';
import { requireWorkspace } from '../access/access.ts';
import type { Recorded } from '../record.ts';
import { resourceOf, type Row } from '../rows.ts';

const apiKeyFields = {
  id: id('API key'),
  name,
  maskedKey: plainText(64, 'the key without its middle part', 'acme_17aT****JpQ1'),
  prefix,
  expiresAt: Type.Optional(instant('when it expires; absent: never')),
  scopes: answeredScopes,
  enabled: Type.Boolean({ description: 'whether it may be used', examples: [true] }),
  customerId: Type.Optional(customerId),
  externalMeterId: Type.Optional(externalMeterId),
  billingId: Type.Optional(id('billing record', ' of its meter, once one exists')),
  metadata: Type.Optional(metadata),
  rateLimitPerSecond: Type.Optional(rateLimit),
  limits: Type.Optional(limits),
  allowedIPs: Type.Optional(allowedIps),
  deleted: Type.Boolean({ description: 'whether it was deleted; only an import of its secret can bring it back' }),
  createdAt: timestamp('when it was made'),
  updatedAt: timestamp('when it last changed'),
  lastUsedAt: Type.Optional(timestamp('when it last verified as VALID; at most a minute behind')),
  earlierSecretsUntil: Type.Optional(
    instant('until when an earlier secret still works, of several the last one; absent: none works'),
  ),
};

export const apiKey = named('ApiKey', object(apiKeyFields));
export const apiKeyWithText = named(
  'ApiKeyWithSecret',
  object({
    ...apiKeyFields,
    key: secretText('the key itself; only this answer contains it', 'acme'),
  }),
);

export const grants = Type.Array(scopeEntryInput, {
  maxItems: MOST_SCOPES_OF_KEY,
  description: 'what the key may do; each representation at most once',
});

/** What a request says of a key that it makes. */
export const newKeyFields = {
  name,
  workspaceId: id('workspace'),
  scopes: Type.Optional(grants),
  enabled: Type.Optional(Type.Boolean({ default: true })),
  customerId: Type.Optional(customerId),
  prefix: Type.Optional(prefix),
  expiresAt: Type.Optional(nullable(expiresAtInput)),
  externalMeterId: Type.Optional(externalMeterId),
  metadata: Type.Optional(metadata),
  rateLimitPerSecond: Type.Optional(rateLimit),
  limits: Type.Optional(limits),
  allowedIPs: Type.Optional(allowedIps),
};
/** What keys start with where neither the request nor the workspace says. */
export const DEFAULT_PREFIX = 'key';

export type KeyRow = Row<typeof apiKey> & { shard: number };

export const keys = resourceOf<typeof apiKey, { shard: number }>(
  'api_key',
  apiKey,
  'key_not_found',
  {
    deleted: 'deleted_at is not null',
    billingId: `(select id from billing_records b
                 where b.workspace_id = api_keys.workspace_id and b.external_meter_id = api_keys.external_meter_id)`,
    lastUsedAt: '(select to_timestamp(last_used_at / 1000.0) from key_last_used where key_id = api_keys.id)',
    earlierSecretsUntil: `(select max(valid_until) from key_texts
                           where key_id = api_keys.id and valid_until > extract(epoch from now()) * 1000)`,
    scopes: `(select coalesce(json_agg(json_build_object(
                'representation', s.representation, 'create', g.flags & 1 > 0, 'read', g.flags & 2 > 0,
                'update', g.flags & 4 > 0, 'del', g.flags & 8 > 0, 'id', s.id) order by g.position), '[]')
              from key_grants g join scopes s on s.id = g.scope_id and s.deleted_at is null where g.key_id = api_keys.id)`,
  },
  ['shard'],
);

type InPath = { id: string; akid: string };

/** The key of a path; 403 or 404. `lock`: its versions count one after the other. */
export async function requireKey(
  sql: Query,
  caller: Caller,
  { id, akid }: InPath,
  { lock = false } = {},
): Promise<KeyRow> {
  await requireWorkspace(sql, caller, id);
  // What is read after the lock has the scopes that whoever had the lock before has stored.
  if (lock) await keys.require(sql, akid, sql`workspace_id = ${id}`, { lock });
  return readKey(sql, { id, akid });
}

/** Reads the key of a path; the caller must have checked that the token may use the workspace. */
export function readKey(sql: Query, { id, akid }: InPath): Promise<KeyRow> {
  return keys.require(sql, akid, sql`workspace_id = ${id}`);
}

/**
 * Gives a locked key without a meter its first one; throws where it has another. From then on it lives with the billing record, and
 * where its secrets were looked for, pointers stand. Gives the shards in which it has to be written, that of its record first.
 */
export async function giveMeter(
  sql: Query,
  workspaceId: string,
  { id, shard: oldShard, externalMeterId }: KeyRow,
  meter: string | undefined,
): Promise<number[]> {
  if (meter === undefined || meter === externalMeterId) return [oldShard];
  if (externalMeterId !== null) throw new ApiError('key_metered');
  const shard = meterShard(workspaceId, meter);
  await sql`
    update api_keys set external_meter_id = ${meter}, shard = ${shard}, version = version + 1, updated_at = now()
    where id = ${id}`;
  if (shard === oldShard) return [shard];
  await sql`update key_texts set pointer_shard = ${oldShard} where key_id = ${id}`;
  return [shard, oldShard];
}

/** Disables keys whose rows the transaction has locked; gives what to say of them. */
export async function disableLockedKeys(sql: Query, ids: string[]): Promise<Recorded[]> {
  const read = () => keys.page(sql, sql`id = any(${ids})`, '', ids.length);
  const before = await read();
  await sql`
    update api_keys set enabled = false, version = version + 1, updated_at = now() where id = any(${ids})`;
  const after = await read();
  return after.map((row, i) => keys.recorded({ before: before[i]!, after: row }));
}
