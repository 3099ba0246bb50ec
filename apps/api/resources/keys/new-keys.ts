import type { Static } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { object } from '../../../../shared/contract/schema-kinds.ts';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { mayUse } from '../access/access.ts';
import { grantRows, refuseWrongScopes } from './key-scopes.ts';
import { DEFAULT_PREFIX, jsonValue, type newKeyFields } from './keys.ts';

type Fields = Static<ReturnType<typeof object<typeof newKeyFields>>>;
type Workspace = { id: string; prefix: string | null; lifetimeSeconds: number | null; scopeIds: Map<string, string> };
/** A key that is to be made, in its shard. */
type Placed = { id: string; fields: Fields; workspace: Workspace; shard: number };
/** The same with its secret: the hash, the shard in which a verification looks for it, and what of it may be shown. */
export type NewKey = Placed & { text: { hash: string; home: number; maskedKey: string } };

/** The workspaces of keys that the caller may use, held, with the scopes of theirs that keys name, held too. */
export async function holdWorkspaces(sql: Query, caller: Caller, keys: Fields[]): Promise<Map<string, Workspace>> {
  const ids = [...new Set(keys.map(({ workspaceId }) => workspaceId))].filter((id) => mayUse(caller, id));
  const rows = await sql<Omit<Workspace, 'scopeIds'>[]>`
    select id, default_key_prefix as prefix, default_expiration as lifetime_seconds from workspaces
    where id = any(${ids}) and team_id = ${caller.teamId} and deleted_at is null order by id for key share`;
  const workspaces = new Map(rows.map((row) => [row.id, { ...row, scopeIds: new Map<string, string>() }]));
  const named = [...new Set(keys.flatMap(({ scopes = [] }) => scopes.map((scope) => scope.representation)))];
  if (named.length === 0) return workspaces;
  const scopes = await sql<{ id: string; workspaceId: string; representation: string }[]>`
    select id, workspace_id, representation from scopes
    where workspace_id = any(${[...workspaces.keys()]}) and representation = any(${named}) and deleted_at is null
    order by id for key share`;
  for (const scope of scopes) workspaces.get(scope.workspaceId)!.scopeIds.set(scope.representation, scope.id);
  return workspaces;
}

/** Places a key; 403 where its workspace is not one of these, and 400 for scopes that this lacks. */
export function placeKey(fields: Fields, workspaces: ReadonlyMap<string, Workspace>, home: number): Placed {
  const { workspaceId, scopes = [], externalMeterId } = fields;
  const workspace = workspaces.get(workspaceId);
  if (!workspace) throw new ApiError('workspace_forbidden');
  refuseWrongScopes(
    scopes.map(({ representation }) => representation),
    workspace.scopeIds,
  );
  // A key that draws on a billing record lives with the record.
  const shard = externalMeterId === undefined ? home : meterShard(workspaceId, externalMeterId);
  return { id: newId('key'), fields, workspace, shard };
}

/** What the text of a key starts with. */
export function prefixOf({ fields, workspace }: Placed): string {
  return fields.prefix ?? workspace.prefix ?? DEFAULT_PREFIX;
}

/**
 * Inserts those whose hash nobody has; gives their ids. One statement: the hashes decide which rows of keys are made, and in
 * their order two requests with the same ones wait for each other, never both ways.
 */
export async function insertKeys(
  sql: Query,
  caller: Caller,
  wanted: NewKey[],
  { imported, now }: { imported: boolean; now: number },
): Promise<Set<string>> {
  const rows = wanted.map((one, place) => ({ place, ...rowOf(one, now) }));
  const made = await sql<{ id: string }[]>`
    with wanted as (
      select * from json_to_recordset(${jsonValue(sql, rows)}) as t (
        place int, hash text, pointer_shard smallint, id text, workspace_id text, shard smallint, name text, prefix text,
        masked_key text, enabled boolean, expires_at bigint, customer_id text, external_meter_id text, metadata text,
        rate_limit_per_second int, limits json, allowed_ips text[], grants smallint)
    ), texts as (
      insert into key_texts (hash, team_id, key_id, imported, pointer_shard)
      select hash, ${caller.teamId}, id, ${imported}, pointer_shard from wanted order by hash, place
      on conflict do nothing returning key_id
    )
    insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, expires_at, customer_id,
                          external_meter_id, metadata, rate_limit_per_second, limits, allowed_ips, grants)
    select id, ${caller.teamId}, workspace_id, shard, name, prefix, masked_key, enabled, expires_at, customer_id,
           external_meter_id, metadata::json, rate_limit_per_second, limits, allowed_ips, grants
    from wanted where id in (select key_id from texts)
    returning id`;
  const ids = new Set(made.map(({ id }) => id));
  const grants = wanted.flatMap(({ id, fields: { scopes = [] }, workspace }) =>
    ids.has(id) ? grantRows({ teamId: caller.teamId, keyId: id }, scopes, workspace.scopeIds) : [],
  );
  if (grants.length > 0) await sql`insert into key_grants ${sql(grants)}`;
  return ids;
}

/** When a key expires. */
export function endOf({ fields, workspace: { lifetimeSeconds } }: Placed, now: number): number | null {
  const byDefault = lifetimeSeconds === null ? null : now + lifetimeSeconds * 1000;
  return fields.expiresAt === undefined ? byDefault : fields.expiresAt;
}

function rowOf(one: NewKey, now: number) {
  const { fields, text, workspace, id, shard } = one;
  return {
    hash: text.hash,
    pointer_shard: text.home === shard ? null : text.home,
    id,
    workspace_id: workspace.id,
    shard,
    name: fields.name,
    prefix: prefixOf(one),
    masked_key: text.maskedKey,
    enabled: fields.enabled ?? true,
    expires_at: endOf(one, now),
    customer_id: fields.customerId ?? null,
    external_meter_id: fields.externalMeterId ?? null,
    // As text: within JSON Postgres would refuse an escaped NUL.
    metadata: fields.metadata === undefined ? null : JSON.stringify(fields.metadata),
    rate_limit_per_second: fields.rateLimitPerSecond ?? null,
    limits: fields.limits ?? null,
    allowed_ips: fields.allowedIPs ?? null,
    grants: fields.scopes?.length ?? 0,
  };
}
