import { allowWorkspace, type AllowedWorkspace } from '../../../../shared/books/usage/allowed-workspace.ts';
import { blocksOf } from '../../../../shared/auth/access-token.ts';
import type { Caller, Permission, Portal } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { isId } from '../../../../shared/values/ids.ts';
import type { Query, Sql, Transaction } from '../../../../shared/stores/postgres.ts';
import { lockName } from '../rows.ts';

/** Loads access tokens from Postgres, so that operations that need no verification state work without Redis. */
export function tokensFromPostgres(sql: Sql) {
  return async function load(_shard: number, hash: string): Promise<Caller | undefined> {
    const [row] = await sql<TokenRow[]>`
      select ${callerColumns(sql)} from access_tokens t where hash = ${hash} and is_in_force(t)`;
    return row && callerOf(row);
  };
}

/** What `callerOf` takes, of an access token `t`. */
export function callerColumns(sql: Query) {
  return sql`t.id, t.team_id, t.permissions, t.workspace_ids, t.allowed_ips, ${teamRate(sql, 't')}`;
}

/** How often a team may call the api, where it has a limit of its own; `of` names a row of the team. */
export function teamRate(sql: Query, of: string) {
  return sql`(select (limits ->> 'api_per_second')::int from team_quotas q where q.team_id = ${sql(of)}.team_id) as team_per_second`;
}

/** The caller that a row of an access token stands for. */
export function callerOf({ id, teamId, permissions, workspaceIds, allowedIps, teamPerSecond }: TokenRow): Caller {
  return {
    tokenId: id,
    teamId,
    permissions: new Set(permissions),
    workspaceIds: workspaceIds ?? undefined,
    allowedBlocks: blocksOf(allowedIps ?? []),
    teamPerSecond: teamPerSecond ?? undefined,
  };
}

/**
 * Begins a write: throws 401 unless the caller's token, or link token, is still in force, whatever the cache of callers says. Until the
 * transaction ends, nothing of the team is revoked. With `alone`, for what revokes, no other write of the team is under way.
 */
export async function lockTokens(
  tx: Transaction,
  { tokenId, teamId, portal, source }: Caller,
  { alone = false } = {},
): Promise<void> {
  // The second statement sees what was committed until the lock was there.
  const [, found] = await Promise.all([
    lockTeamTokens(tx, teamId, { alone }),
    source
      ? tx`select from payment_sources where id = ${source.id} and deleted_at is null`
      : portal
        ? tx`select from link_tokens l where id = ${portal.linkTokenId} and is_in_force(l)`
        : tx`select from access_tokens t where id = ${tokenId} and is_in_force(t)`,
  ]);
  if (found.length === 0)
    throw new ApiError(source ? 'payment_source_not_found' : portal ? 'portal_ended' : 'token_unknown');
}

/**
 * Takes the lock between a team's writes and its revocations. An advisory lock, because it has a queue: a row that many
 * transactions share, one after the other, never comes free for the one that wants it alone.
 */
export async function lockTeamTokens(tx: Transaction, teamId: string, { alone = false } = {}): Promise<void> {
  const name = `tokens of ${teamId}`;
  if (alone) await lockName(tx, name);
  else await tx`select pg_advisory_xact_lock_shared(hashtextextended(${name}, 0))`;
}

/** Whether the access token may use the workspace, provided that the workspace exists in its team. */
export function mayUse(caller: Caller, workspaceId: string): boolean {
  return isId(workspaceId) && (caller.workspaceIds === undefined || caller.workspaceIds.includes(workspaceId));
}

/**
 * Throws 403 unless the workspace exists in the caller's team and its token may use it. Unknown, deleted and forbidden look
 * the same. `hold` keeps it from being deleted before the transaction ends: for what makes something in it.
 */
export async function requireWorkspace(
  sql: Query,
  caller: Caller,
  workspaceId: string,
  { hold = false } = {},
): Promise<void> {
  const found = mayUse(caller, workspaceId)
    ? await sql`
        select from workspaces where id = ${workspaceId} and team_id = ${caller.teamId} and deleted_at is null
        ${hold ? sql`for key share` : sql``}`
    : [];
  if (found.length === 0) throw new ApiError('workspace_forbidden');
}

/** The workspace as readers of its usage want it: one that the caller may use, else 403. */
export async function requireUsageOf(sql: Query, caller: Caller, workspaceId: string): Promise<AllowedWorkspace> {
  await requireWorkspace(sql, caller, workspaceId);
  return allowWorkspace(workspaceId);
}

/** The workspace of a link as readers of its usage want it: the link was made by a token that may use it. */
export function usageOfPortal({ workspaceId }: Portal): AllowedWorkspace {
  return allowWorkspace(workspaceId);
}

/** The condition under which a token may see a row that is not deleted: one that is limited to workspaces sees those of its workspaces. */
export function withinSight(sql: Query, caller: Caller) {
  return sql`${everWithinSight(sql, caller)} and deleted_at is null`;
}

/** The condition of rows of a workspace that are not deleted. */
export function within(sql: Query, workspaceId: string) {
  return sql`workspace_id = ${workspaceId} and deleted_at is null`;
}

/** What `withinSight` says, of a row that may be deleted. */
export function everWithinSight(sql: Query, { teamId, workspaceIds }: Caller) {
  const ofTeam = sql`team_id = ${teamId}`;
  return workspaceIds === undefined ? ofTeam : sql`${ofTeam} and workspace_id = any(${[...workspaceIds]})`;
}

/** Throws 403 for an access token that is limited to workspaces, in an operation on the whole team. */
export function requireWholeTeam(caller: Caller): void {
  if (caller.workspaceIds === undefined) return;
  const message = 'The access token is limited to workspaces, and this operation concerns the whole team.';
  throw new ApiError('workspace_forbidden', { message });
}

/** Throws 403 unless the access token holds what it is to give. */
export function requireHeld(caller: Caller, gives: readonly Permission[]): void {
  const lacking = gives.filter((permission) => !caller.permissions.has(permission));
  if (lacking.length > 0) throw notGrantable(`it lacks ${lacking.join(', ')}`);
}

export function notGrantable(why: string): ApiError {
  const message = `A token can only grant what it holds itself, and ${why}.`;
  return new ApiError('permission_not_grantable', { message });
}

/** What authentication reads of an access token. */
export type TokenRow = {
  id: string;
  teamId: string;
  permissions: string[];
  workspaceIds: string[] | null;
  allowedIps: string[] | null;
  teamPerSecond: number | null;
};
