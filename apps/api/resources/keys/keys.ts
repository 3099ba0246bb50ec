import type { Parameter } from 'postgres';
import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import { isId } from '../../../../shared/values/ids.ts';
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
  scopeEntryOf,
} from '../../../../shared/contract/schemas.ts';
import { requireWorkspace } from '../access/access.ts';
import { expiresAtInput } from '../expires-at.ts';
import type { Recorded } from '../record.ts';
import { present, type Row } from '../rows.ts';

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
};

/** An API key as the API answers it (section 2 of the specification). */
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

const JSON_OID = 114;

export type KeyRow = Omit<Row<typeof apiKey>, 'scopes'> & {
  shard: number;
  scopes: { representation: string; flags: number; id: string }[];
};

/** Reads keys; `rest` is the where clause and the end of the statement, in which the keys are `k`. */
export function selectKeys(sql: Query, rest: ReturnType<Query>) {
  return sql<KeyRow[]>`
    select k.id, k.name, k.masked_key, k.prefix, k.shard, k.expires_at, k.enabled, k.customer_id, k.external_meter_id,
           b.id as billing_id, k.metadata, k.rate_limit_per_second, k.limits, k.allowed_ips as "allowedIPs", k.deleted_at is not null as deleted,
           k.created_at, k.updated_at, to_timestamp(u.last_used_at / 1000.0) as last_used_at,
           coalesce((select json_agg(json_build_object('representation', s.representation, 'flags', g.flags, 'id', s.id)
                                     order by g.position)
                     from key_grants g join scopes s on s.id = g.scope_id and s.deleted_at is null
                     where g.key_id = k.id), '[]') as scopes
    from api_keys k
      left join billing_records b on b.workspace_id = k.workspace_id and b.external_meter_id = k.external_meter_id
      left join key_last_used u on u.key_id = k.id
    ${rest}`;
}

/** Reads one key as the API answers it; the caller must have checked that the token may use the workspace. */
export async function readKey(sql: Query, { id, akid }: { id: string; akid: string }) {
  const [row] = await selectKeys(sql, sql`where k.workspace_id = ${id} and k.id = ${isId(akid) ? akid : ''}`);
  if (!row) throw new ApiError('key_not_found');
  return presentKey(row);
}

/** Locks a key's row, so that its versions count one after the other; throws 403 or 404. */
export async function lockKey(sql: Query, caller: Caller, { id, akid }: { id: string; akid: string }) {
  await requireWorkspace(sql, caller, id);
  const [row] = await sql<{ shard: number; prefix: string; deleted: boolean }[]>`
    select shard, prefix, deleted_at is not null as deleted from api_keys
    where workspace_id = ${id} and id = ${isId(akid) ? akid : ''} for no key update`;
  if (!row) throw new ApiError('key_not_found');
  return row;
}

/**
 * Gives a locked key without a meter its first one; throws where it has another. From then on it lives with the billing record, and
 * where its secrets were looked for, pointers stand. Gives the shards in which it has to be written, that of its record first.
 */
export async function giveMeter(
  sql: Query,
  key: { id: string; akid: string; shard: number; meter?: string | undefined },
  meter: string | undefined,
): Promise<number[]> {
  if (meter === undefined || meter === key.meter) return [key.shard];
  if (key.meter !== undefined) throw new ApiError('key_metered');
  const shard = meterShard(key.id, meter);
  await sql`
    update api_keys set external_meter_id = ${meter}, shard = ${shard}, version = version + 1, updated_at = now()
    where id = ${key.akid}`;
  if (shard === key.shard) return [shard];
  await sql`update key_texts set pointer_shard = ${key.shard} where key_id = ${key.akid}`;
  return [shard, key.shard];
}

/** Disables keys whose rows the transaction has locked; gives what to say of them. */
export async function disableLockedKeys(sql: Query, ids: string[]): Promise<Recorded[]> {
  const read = () => selectKeys(sql, sql`where k.id = any(${ids}) order by k.id`);
  const before = await read();
  await sql`
    update api_keys set enabled = false, version = version + 1, updated_at = now() where id = any(${ids})`;
  const after = await read();
  return after.map((row, i) => ({
    resource: 'api_key',
    id: row.id,
    before: presentKey(before[i]!),
    after: presentKey(row),
    shards: [row.shard],
  }));
}

/** A value as a parameter of type json; the driver would send jsonb, which refuses NUL in text. Nothing stays as it is. */
export function jsonValue<Value extends object | null | undefined>(sql: Query, value: Value) {
  return (value && sql.typed(value, JSON_OID)) as Parameter<readonly object[]> | Exclude<Value, object>;
}

/** A row as the API answers it. */
export function presentKey(row: KeyRow) {
  const scopes = row.scopes.map((scope) => scopeEntryOf(scope.representation, scope.flags, scope.id));
  return present(apiKey, { ...row, scopes });
}
