import type { Static } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { object } from '../../../../shared/contract/schema-kinds.ts';
import { meterShard } from '../../../../shared/stores/keyspace.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { mayUse } from '../access/access.ts';
import { stored } from '../rows.ts';
import { DEFAULT_PREFIX, type newKeyFields, type grants } from './keys.ts';
import { flagBits } from '../../../../shared/contract/schemas.ts';
import { hideSecrets } from '../../../../shared/values/secrets.ts';

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
  for (const scope of await holdScopes(sql, [...workspaces.keys()], named))
    workspaces.get(scope.workspaceId)!.scopeIds.set(scope.representation, scope.id);
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

/** Inserts those whose hash nobody has; gives their ids. */
export async function insertKeys(
  sql: Query,
  caller: Caller,
  wanted: NewKey[],
  { imported, now }: { imported: boolean; now: number },
): Promise<Set<string>> {
  const { teamId } = caller;
  if (wanted.length === 0) return new Set();
  const texts = wanted.map(({ id, shard, text: { hash, home } }) => {
    return { hash, teamId, keyId: id, imported, pointerShard: home === shard ? null : home };
  });
  // In the order of the hashes: two requests with the same ones wait for each other, never both ways.
  const inOrder = texts.toSorted((a, b) => (a.hash < b.hash ? -1 : Number(a.hash > b.hash)));
  const made = await sql<{ keyId: string }[]>`
    insert into key_texts ${sql(inOrder)} on conflict do nothing returning key_id`;
  const ids = new Set(made.map(({ keyId }) => keyId));
  const rows = wanted.filter(({ id }) => ids.has(id)).map((one) => stored(sql, { teamId, ...rowOf(one, now) }));
  if (rows.length > 0) await sql`insert into api_keys ${sql(rows)}`;
  const grants = wanted.flatMap(({ id, fields: { scopes = [] }, workspace }) =>
    ids.has(id) ? grantRows({ teamId, keyId: id }, scopes, workspace.scopeIds) : [],
  );
  if (grants.length > 0) await sql`insert into key_grants ${sql(grants)}`;
  return ids;
}

/** When a key expires. */
function endOf({ fields, workspace: { lifetimeSeconds } }: Placed, now: number): number | null {
  const byDefault = lifetimeSeconds === null ? null : now + lifetimeSeconds * 1000;
  return fields.expiresAt === undefined ? byDefault : fields.expiresAt;
}

function rowOf(one: NewKey, now: number) {
  const { fields, text, workspace, id, shard } = one;
  return {
    id,
    workspaceId: workspace.id,
    shard,
    prefix: prefixOf(one),
    maskedKey: text.maskedKey,
    customerId: fields.customerId ?? null,
    externalMeterId: fields.externalMeterId ?? null,
    ...settingsOf(one, now),
  };
}

/** What PATCH can change of a key, as that of a new one is. */
export function settingsOf(one: Placed, now: number) {
  const { name, enabled = true, metadata, rateLimitPerSecond, limits, allowedIPs, scopes = [] } = one.fields;
  return {
    name,
    enabled,
    expiresAt: endOf(one, now),
    metadata: metadata ?? null,
    rateLimitPerSecond: rateLimitPerSecond ?? null,
    limits: limits ?? null,
    allowedIPs: allowedIPs ?? null,
    grants: scopes.length,
  };
}

type Holder = { teamId: string; workspaceId: string; keyId: string };

/**
 * Grants a key exactly these scopes; 400 if the workspace does not have one of them, or one is given twice. It holds the
 * scopes: what a representation means must not change before the grant is stored.
 */
export async function replaceGrants(sql: Query, { teamId, workspaceId, keyId }: Holder, scopes: Static<typeof grants>) {
  const scopeIds = await holdGranted(sql, workspaceId, scopes);
  await sql`delete from key_grants where key_id = ${keyId}`;
  const rows = grantRows({ teamId, keyId }, scopes, scopeIds);
  if (rows.length > 0) await sql`insert into key_grants ${sql(rows)}`;
}

/** Holds the scopes of a workspace that are to be granted; gives their ids by representation, or throws a 400 of the field. */
export async function holdGranted(sql: Query, workspaceId: string, scopes: Static<typeof grants>, field = 'scopes') {
  const wanted = scopes.map((scope) => scope.representation);
  const found = await holdScopes(sql, [workspaceId], wanted);
  const scopeIds = new Map(found.map((scope) => [scope.representation, scope.id]));
  refuseWrongScopes(wanted, scopeIds, field);
  return scopeIds;
}

async function holdScopes(sql: Query, workspaceIds: string[], wanted: string[]) {
  return sql<{ id: string; workspaceId: string; representation: string }[]>`
    select id, workspace_id, representation from scopes
    where workspace_id = any(${workspaceIds}) and representation = any(${wanted}) and deleted_at is null
    order by id for key share`;
}

/** Throws 400 for representations that the workspace does not have (`scopeIds` are those it has), or that are given twice. */
function refuseWrongScopes(wanted: string[], scopeIds: ReadonlyMap<string, string>, field = 'scopes'): void {
  const wrong = (message: string, isWrong: (one: string, i: number) => boolean) =>
    wanted.flatMap((one, i) => (isWrong(one, i) ? [{ path: `/${field}/${i}/representation`, message }] : []));
  const unknown = wrong('is not a scope of the workspace', (one) => !scopeIds.has(one));
  if (unknown.length > 0) {
    // The client may have put a key into the wrong field.
    const names = [...new Set(wanted.filter((one) => !scopeIds.has(one)))].map(hideSecrets).join(', ');
    const message = `The workspace has no scope ${names}; create it first.`;
    throw new ApiError('unknown_scope', { message, details: unknown });
  }
  const twice = wrong('is given twice', (one, i) => wanted.indexOf(one) !== i);
  if (twice.length === 0) return;
  const message = 'The request is not valid: scopes contains a representation twice; put all its flags into one entry.';
  throw new ApiError('invalid_request', { message, details: twice });
}

/** The rows that grant a key these scopes. */
function grantRows(
  { teamId, keyId }: Omit<Holder, 'workspaceId'>,
  scopes: Static<typeof grants>,
  scopeIds: ReadonlyMap<string, string>,
) {
  return scopes.map((scope, position) => {
    return { teamId, keyId, scopeId: scopeIds.get(scope.representation)!, flags: flagBits(scope), position };
  });
}
