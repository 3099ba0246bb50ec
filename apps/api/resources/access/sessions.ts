import { hash, randomBytes } from 'node:crypto';
import { Type } from 'typebox';
import type { Clock } from '../../../../shared/runtime/clock.ts';
import { cacheCallers, type Authenticate } from '../../../../shared/auth/access-token.ts';
import { type Caller, type Portal, permissions } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { name } from '../../../../shared/contract/schemas.ts';
import type { Query, Sql } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { keys } from '../keys/keys.ts';
import { callerColumns, callerOf, teamRate, within, type TokenRow } from './access.ts';
import { hashKeyText } from '../../../../shared/values/key-text.ts';
import { billings, type BillingRow } from '../billings/billings.ts';
import { isLinkToken } from './link-tokens.ts';
import { accessToken } from './tokens.ts';

/** How long a session lasts; one of who signed in at a provider ends soon, since it knows nothing of what has changed there. */
export const SESSION_SECONDS = 8 * 3600;
export const PROVIDED_SECONDS = 3600;
/** How long a code may wait that begins a session. */
export const CODE_SECONDS = 600;
const CODE_PREFIX = 'once_';
// Signing in once more ends the oldest: a token never has more.
const SESSIONS_OF_TOKEN = 20;
const SECRET_BYTES = 32;

/** A session as the console sees it: what its access token may do, and when it ends. */
export const session = object({
  tokenId: id('access token'),
  tokenName: name,
  permissions: accessToken.properties.permissions,
  workspaceIds: accessToken.properties.workspaceIds,
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
    const { row, caller } = await findSession(sql, secret, false);
    noteUse(row.shard, row.id);
    return caller;
  }, clock);
}

/** Authenticates with a code that begins a session. The session takes its place: it works once. */
export function codesFromPostgres(sql: Sql): Authenticate {
  return async (code = '') => (await findSession(sql, code.trim(), true)).caller;
}

async function findSession(sql: Sql, secret: string, isCode: boolean) {
  const [row] = await sql<(TokenRow & { shard: number; sessionId: string })[]>`
    select ${callerColumns(sql)}, t.shard, s.id as session_id from sessions s join access_tokens t on t.id = s.token_id
    where s.hash = ${hashOf(secret)} and s.once = ${isCode} and s.expires_at > now() and is_in_force(t)`;
  if (!row) throw isCode ? codeEnded() : new ApiError('session_ended');
  return { row, caller: { ...callerOf(row), sessionId: row.sessionId } satisfies Caller };
}

function codeEnded(): ApiError {
  const message = 'The link to sign in was used, or has ended; make another one, or sign in with an access token.';
  return new ApiError('session_ended', { message });
}

/** Makes a code of the caller's token that begins a session, once; the code before ends. */
export async function storeCode(sql: Query, caller: Caller) {
  await sql`delete from sessions where token_id = ${caller.tokenId} and once`;
  return insertSession(sql, caller, { prefix: CODE_PREFIX, seconds: CODE_SECONDS });
}

/** Makes a session of the caller's token, or of the link token by which a customer came; gives the secret for its cookie. */
export async function storeSession(sql: Query, caller: Caller, seconds: number) {
  const [column, holder] = holderOf(caller);
  await sql`
    delete from sessions where id in (
      select id from sessions where ${sql(column)} = ${holder} order by id desc offset ${SESSIONS_OF_TOKEN - 1})`;
  return insertSession(sql, caller, { prefix: '', seconds });
}

async function insertSession(sql: Query, caller: Caller, { prefix, seconds }: { prefix: string; seconds: number }) {
  const { teamId, portal } = caller;
  const [column, holder] = holderOf(caller);
  const secret = prefix + randomBytes(SECRET_BYTES).toString('base64url');
  const sessionId = newId('sess');
  const end = portal
    ? sql`to_timestamp(${portal.expiresAt}::bigint / 1000.0)`
    : sql`now() + make_interval(secs => ${seconds})`;
  const [row] = await sql<[{ expiresAt: Date }]>`
    insert into sessions (id, team_id, ${sql(column)}, hash, once, expires_at)
    values (${sessionId}, ${teamId}, ${holder}, ${hashOf(secret)}, ${prefix !== ''}, ${end}) returning expires_at`;
  return { secret, sessionId, line: sessionLine(caller, row) };
}

function holderOf({ tokenId, portal }: Caller): ['link_token_id' | 'token_id', string] {
  return portal ? ['link_token_id', portal.linkTokenId] : ['token_id', tokenId];
}

/** Ends a session; gives what it was. */
export async function removeSession(sql: Query, caller: Caller) {
  const [column, holder] = holderOf(caller);
  const [row] = await sql<{ expiresAt: Date }[]>`
    delete from sessions where id = ${caller.sessionId ?? ''} and ${sql(column)} = ${holder} returning expires_at`;
  if (!row) throw new ApiError(caller.portal ? 'portal_ended' : 'session_ended');
  return sessionLine(caller, row);
}

function sessionLine({ tokenId, portal }: Caller, { expiresAt }: { expiresAt: Date }) {
  return { ...(portal ? { linkTokenId: portal.linkTokenId } : { tokenId }), expiresAt: expiresAt.toISOString() };
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
  return hash('sha256', secret, 'base64url');
}

/** Authenticates with a link token, which begins a session of the portal. */
export function linksFromPostgres(sql: Sql): Authenticate {
  return async (link = '') => {
    if (!isLinkToken(link)) throw new ApiError('portal_ended');
    return findPortal(sql, sql`null as session_id from link_tokens l where l.hash = ${hashKeyText(link)}`);
  };
}

/** Authenticates with the secret of a session of the portal. It ends with its link token. */
export function portalsFromPostgres(sql: Sql, clock: Clock): Authenticate {
  return cacheCallers(
    (secret) =>
      findPortal(
        sql,
        sql`s.id as session_id from link_tokens l join sessions s on s.link_token_id = l.id
          where s.hash = ${hashOf(secret)} and s.expires_at > now()`,
      ),
    clock,
  );
}

/** What the caller's link opens. Only operations of the portal have such callers. */
export function portalOf({ portal }: Caller): Portal {
  if (!portal) throw new Error('an operation of the portal has a caller without one');
  return portal;
}

/**
 * The billing record that the portal shows: the link names it, and all its keys are the customer's, deleted ones too, since
 * what they used is in it. One without keys is not known to be the customer's.
 */
export async function findPortalBilling(
  sql: Query,
  { billingId, workspaceId, customerId }: Portal,
): Promise<BillingRow | undefined> {
  if (billingId === undefined) return undefined;
  const keys = sql`from api_keys k where k.workspace_id = b.workspace_id and k.external_meter_id = b.external_meter_id`;
  const [row] = await sql<BillingRow[]>`
    select ${billings.columns(sql)} from billing_records b
    where id = ${billingId} and workspace_id = ${workspaceId}
      and exists (select ${keys} and k.customer_id = ${customerId})
      and not exists (select ${keys} and k.customer_id is distinct from ${customerId})`;
  return row;
}

/** The same, or 404. */
export async function requirePortalBilling(sql: Query, portal: Portal): Promise<BillingRow> {
  const row = await findPortalBilling(sql, portal);
  if (!row) throw new ApiError('billing_not_found');
  return row;
}

/** Throws 404 unless the key is one of the customer's, in the workspace of the link, and was not deleted. */
export async function requirePortalKey(sql: Query, { workspaceId, customerId }: Portal, keyId: string): Promise<void> {
  await keys.require(sql, keyId, sql`${within(sql, workspaceId)} and customer_id = ${customerId}`);
}

async function findPortal(sql: Sql, rest: ReturnType<Query>): Promise<Caller> {
  const [row] = await sql<PortalRow[]>`
    select l.created_by as token_id, l.team_id, l.id as link_token_id, l.workspace_id, l.customer_id, l.billing_id, l.expires_at,
           'rotate' = any(l.permissions) as may_rotate,
           ${teamRate(sql, 'l')},
           ${rest} and is_in_force(l)`;
  if (!row) throw new ApiError('portal_ended');
  const { tokenId, teamId, teamPerSecond, sessionId, ...portal } = row;
  return {
    // Who made the link answers for what it does; with no permission, every other operation refuses it too.
    tokenId,
    teamId,
    permissions: new Set(),
    workspaceIds: [portal.workspaceId],
    teamPerSecond: teamPerSecond ?? undefined,
    ...(sessionId !== null && { sessionId }),
    portal: { ...portal, billingId: portal.billingId ?? undefined },
  };
}

type PortalRow = Omit<Portal, 'billingId'> &
  Pick<Caller, 'tokenId' | 'teamId'> & {
    billingId: string | null;
    sessionId: string | null;
    teamPerSecond: number | null;
  };
