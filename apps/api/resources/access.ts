import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { isId } from '../../../shared/values/ids.ts';
import { asPostgresUnavailable, type Query, type Sql } from '../../../shared/stores/postgres.ts';

/** Loads access tokens from Postgres, so that operations that need no verification state work without Redis. */
export function tokensFromPostgres(sql: Sql) {
  return async function load(_shard: number, hash: string): Promise<Caller | undefined> {
    const [row] = await sql<TokenRow[]>`
      select id, team_id, permissions, workspace_ids,
             (select (limits ->> 'api_per_second')::int from team_quotas q where q.team_id = access_tokens.team_id) as team_per_second
      from access_tokens
      where hash = ${hash} and revoked_at is null
        and (expires_at is null or expires_at > extract(epoch from now()) * 1000)`.catch((error: unknown) => {
      throw asPostgresUnavailable(error);
    });
    if (!row) return undefined;
    return {
      tokenId: row.id,
      teamId: row.teamId,
      permissions: new Set(row.permissions),
      workspaceIds: row.workspaceIds ?? undefined,
      teamPerSecond: row.teamPerSecond ?? undefined,
    };
  };
}

type TokenRow = {
  id: string;
  teamId: string;
  permissions: string[];
  workspaceIds: string[] | null;
  teamPerSecond: number | null;
};

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

/** Throws 403 for an access token that is limited to workspaces, in an operation on the whole team. */
export function requireWholeTeam(caller: Caller): void {
  if (caller.workspaceIds === undefined) return;
  const message = 'The access token is limited to workspaces, and this operation concerns the whole team.';
  throw new ApiError('workspace_forbidden', { message });
}
