import { createHash, randomBytes } from 'node:crypto';
import { Type } from 'typebox';
import type { Clock } from '../../../../shared/runtime/clock.ts';
import { cacheCallers, type Authenticate } from '../../../../shared/auth/access-token.ts';
import type { Caller, Portal } from '../../../../shared/contract/caller.ts';
import { permissions } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import type { Query, Sql } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { callerOf, type TokenRow } from './access.ts';

/** How long a session lasts. */
export const SESSION_SECONDS = 8 * 3600;
// Signing in once more ends the oldest: a token never has more.
const SESSIONS_OF_TOKEN = 20;
const SECRET_BYTES = 32;

/** A session as the console sees it: what its access token may do, and when it ends. */
export const session = object({
  tokenId: id('access token'),
  tokenName: name,
  permissions: Type.Array(Type.Enum([...permissions]), { maxItems: permissions.length }),
  workspaceIds: Type.Optional(
    Type.Array(id('workspace'), { maxItems: 100, description: 'the workspaces it is limited to; absent: all' }),
  ),
  expiresAt: Type.Optional(timestamp('when the session ends')),
});

/**
 * Authenticates with the secret of a session, which stands for its access token: with the rights that this has now, and
 * no longer than it is in force. `noteUse` notes that the token was used.
 */
export function sessionsFromPostgres(
  sql: Sql,
  noteUse: (shard: number, tokenId: string) => void,
  clock: Clock,
): Authenticate {
  return cacheCallers(async (secret): Promise<Caller> => {
    const [row] = await sql<(TokenRow & { shard: number; sessionId: string })[]>`
      select t.id, t.team_id, t.permissions, t.workspace_ids, t.allowed_ips, t.shard, s.id as session_id,
             (select (limits ->> 'api_per_second')::int from team_quotas q where q.team_id = t.team_id) as team_per_second
      from sessions s join access_tokens t on t.id = s.token_id
      where s.hash = ${hashOf(secret)} and s.expires_at > now() and is_in_force(t)`;
    if (!row) throw new ApiError('session_ended');
    noteUse(row.shard, row.id);
    return { ...callerOf(row), sessionId: row.sessionId };
  }, clock);
}

/** Makes a session of the caller's token, or of the link token by which a customer came; gives the secret for its cookie. */
export async function storeSession(sql: Query, { teamId, tokenId, portal }: Caller) {
  const [column, holder] = portal ? ['link_token_id', portal.linkTokenId] : ['token_id', tokenId];
  await sql`
    delete from sessions where id in (
      select id from sessions where ${sql(column)} = ${holder} order by id desc offset ${SESSIONS_OF_TOKEN - 1})`;
  const secret = randomBytes(SECRET_BYTES).toString('base64url');
  const sessionId = newId('sess');
  const end = portal
    ? sql`to_timestamp(${portal.expiresAt}::bigint / 1000.0)`
    : sql`now() + make_interval(secs => ${SESSION_SECONDS})`;
  const [row] = await sql<[{ expiresAt: Date }]>`
    insert into sessions (id, team_id, ${sql(column)}, hash, expires_at)
    values (${sessionId}, ${teamId}, ${holder}, ${hashOf(secret)}, ${end}) returning expires_at`;
  return { secret, sessionId, line: sessionLine({ tokenId, portal }, row) };
}

/** Ends a session; gives what it was. */
export async function removeSession(sql: Query, { sessionId, tokenId, portal }: Caller) {
  const [row] = await sql<{ expiresAt: Date }[]>`
    delete from sessions where id = ${sessionId ?? ''}
      and ${portal ? sql`link_token_id = ${portal.linkTokenId}` : sql`token_id = ${tokenId}`}
    returning expires_at`;
  if (!row) throw new ApiError(portal ? 'portal_ended' : 'session_ended');
  return sessionLine({ tokenId, portal }, row);
}

function sessionLine(
  { tokenId, portal }: Pick<Caller, 'tokenId'> & { portal: Portal | undefined },
  row: { expiresAt: Date },
) {
  return { ...(portal ? { linkTokenId: portal.linkTokenId } : { tokenId }), expiresAt: row.expiresAt.toISOString() };
}

/** What the console is told about its session. */
export async function readSession(sql: Query, caller: Caller, sessionId = caller.sessionId) {
  const [row] = await sql<[{ name: string; expiresAt: Date | null }]>`
    select name, (select s.expires_at from sessions s where s.id = ${sessionId ?? ''}) as expires_at
    from access_tokens where id = ${caller.tokenId}`;
  return {
    tokenId: caller.tokenId,
    tokenName: row.name,
    permissions: permissions.filter((permission) => caller.permissions.has(permission)),
    ...(caller.workspaceIds && { workspaceIds: [...caller.workspaceIds] }),
    ...(row.expiresAt && { expiresAt: row.expiresAt.toISOString() }),
  };
}

/** What is stored of the secret of a session. */
export function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url');
}
