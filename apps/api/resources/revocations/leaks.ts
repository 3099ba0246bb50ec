import type { Caller } from '../../../../shared/contract/caller.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { disableLockedKeys } from '../keys/keys.ts';
import { linkTokenColumns, ofLiveWorkspace, type LinkTokenRow } from '../access/link-tokens.ts';
import type { Recorded } from '../record.ts';
import { revokedLink, revokedToken, revokeToken } from './revocations.ts';
import { accessTokens, withinReach, type TokenRow } from '../access/tokens.ts';

// Secrets that were found where they must not be: those of the caller's team, within its workspaces, lose their force.

export type Leaked<Result extends string> = { hash: string; id: string; result: Result };
export type LeakedKey = Leaked<'disabled' | 'was_disabled' | 'replaced' | 'deleted'> & { workspaceId: string };
export type LeakedToken = Leaked<'revoked' | 'was_revoked' | 'reported'>;
/** What was found, and what to say was changed. */
export type Leaks<Found> = { found: Found[]; recorded: Recorded[] };

/** Whether the caller's team has ever imported a key: its secret may look like any word. */
export async function hasImported(sql: Query, { teamId }: Caller): Promise<boolean> {
  const [row] = await sql<[{ found: boolean }]>`
    select exists (select from key_texts where imported and team_id = ${teamId}) as found`;
  return row.found;
}

/** Disables the keys whose secrets have these hashes, except where the secret works no more. */
export async function disableLeakedKeys(sql: Query, caller: Caller, hashes: string[]): Promise<Leaks<LeakedKey>> {
  const rows = await sql<KeyRow[]>`
    select t.hash, k.id, k.workspace_id, k.enabled, k.deleted_at is not null as deleted,
           t.replaced_at is not null and coalesce(t.valid_until, 0) <= extract(epoch from now()) * 1000 as replaced
    from key_texts t join api_keys k on k.id = t.key_id
      join workspaces w on w.id = k.workspace_id and w.deleted_at is null
    where t.hash = any(${hashes}) and k.team_id = ${caller.teamId} and ${inReach(sql, caller, sql`k.workspace_id`)}
    order by k.id, t.hash for no key update of k`;
  const found = rows.map((row) => ({
    hash: row.hash,
    id: row.id,
    workspaceId: row.workspaceId,
    result: resultOf(row),
  }));
  const disabled = new Set(found.filter(({ result }) => result === 'disabled').map(({ id }) => id));
  return { found, recorded: await disableLockedKeys(sql, [...disabled]) };
}

/** Revokes the access tokens with these hashes and what they made, if the caller may revoke; else it reports them alone. */
export async function revokeLeakedTokens(sql: Query, caller: Caller, hashes: string[]): Promise<Leaks<LeakedToken>> {
  const rows = await sql<(TokenRow & { hash: string; revokedWithDescendants: boolean })[]>`
    select hash, revoked_with_descendants, ${accessTokens.columns(sql)} from access_tokens
    where hash = any(${hashes}) and ${withinReach(sql, caller)} order by id for no key update`;
  const leaks: Leaks<LeakedToken> = { found: [], recorded: [] };
  for (const { hash, id, revokedAt, revokedWithDescendants } of rows) {
    const mayRevoke = caller.permissions.has('token:write');
    leaks.found.push({ hash, id, result: revokedAt !== null ? 'was_revoked' : mayRevoke ? 'revoked' : 'reported' });
    // Also one that was revoked alone: whoever has its secret may have revoked it to keep what it made.
    if (revokedWithDescendants || !mayRevoke) continue;
    const { row, below } = await revokeToken(sql, id);
    const again: Recorded = { resource: 'access_token', id, shards: [row.shard] };
    leaks.recorded.push(revokedAt === null ? revokedToken(row) : again, ...below.map(revokedToken));
  }
  return leaks;
}

/** Revokes the link tokens with these hashes, if the caller may revoke them; else it reports them alone. */
export async function revokeLeakedLinks(sql: Query, caller: Caller, hashes: string[]): Promise<Leaks<LeakedToken>> {
  const rows = await sql<(LinkTokenRow & { hash: string })[]>`
    select ${linkTokenColumns(sql)}, hash, revoked_at is null as valid
    from link_tokens
    where hash = any(${hashes}) and team_id = ${caller.teamId} and ${inReach(sql, caller, sql`workspace_id`)}
      and ${ofLiveWorkspace(sql)}
    order by id for no key update`;
  const revoked = caller.permissions.has('link:write') ? rows.filter(({ valid }) => valid) : [];
  await sql`update link_tokens set revoked_at = now() where id = any(${revoked.map(({ id }) => id)})`;
  return {
    found: rows.map((row) => ({
      hash: row.hash,
      id: row.id,
      result: revoked.includes(row) ? 'revoked' : row.valid ? 'reported' : 'was_revoked',
    })),
    recorded: revoked.map(revokedLink),
  };
}

type KeyRow = {
  hash: string;
  id: string;
  workspaceId: string;
  enabled: boolean;
  deleted: boolean;
  replaced: boolean;
};

function resultOf({ deleted, replaced, enabled }: KeyRow): LeakedKey['result'] {
  if (deleted) return 'deleted';
  // A secret that a rotation replaced, and whose grace is over, opens nothing: its key goes on with the newer one.
  if (replaced) return 'replaced';
  return enabled ? 'disabled' : 'was_disabled';
}

function inReach(sql: Query, { workspaceIds }: Caller, column: ReturnType<Query>) {
  return workspaceIds ? sql`${column} = any(${[...workspaceIds]})` : sql`true`;
}
