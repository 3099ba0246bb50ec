import type { Clock } from '../../../../shared/runtime/clock.ts';
import { cacheCallers, type Authenticate } from '../../../../shared/auth/access-token.ts';
import type { Caller, Portal } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Query, Sql } from '../../../../shared/stores/postgres.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { hashKeyText } from '../../../../shared/values/key-text.ts';
import { billings, type BillingRow } from '../billings/billings.ts';
import { isLinkToken } from './link-tokens.ts';
import { hashOf } from './sessions.ts';

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
  const found = isId(keyId)
    ? await sql`
        select from api_keys
        where id = ${keyId} and workspace_id = ${workspaceId} and customer_id = ${customerId} and deleted_at is null`
    : [];
  if (found.length === 0) throw new ApiError('key_not_found');
}

async function findPortal(sql: Sql, rest: ReturnType<Query>): Promise<Caller> {
  const [row] = await sql<PortalRow[]>`
    select l.id, l.team_id, l.created_by, l.workspace_id, l.customer_id, l.billing_id, l.permissions, l.expires_at,
           (select (limits ->> 'api_per_second')::int from team_quotas q where q.team_id = l.team_id) as team_per_second,
           ${rest} and is_in_force(l)`;
  if (!row) throw new ApiError('portal_ended');
  return {
    // Who made the link answers for what it does; with no permission, every other operation refuses it too.
    tokenId: row.createdBy,
    teamId: row.teamId,
    permissions: new Set(),
    workspaceIds: [row.workspaceId],
    teamPerSecond: row.teamPerSecond ?? undefined,
    ...(row.sessionId !== null && { sessionId: row.sessionId }),
    portal: {
      linkTokenId: row.id,
      workspaceId: row.workspaceId,
      customerId: row.customerId,
      billingId: row.billingId ?? undefined,
      mayRotate: row.permissions.includes('rotate'),
      expiresAt: row.expiresAt,
    },
  };
}

type PortalRow = {
  id: string;
  teamId: string;
  createdBy: string;
  workspaceId: string;
  customerId: string;
  billingId: string | null;
  permissions: string[];
  expiresAt: number;
  sessionId: string | null;
  teamPerSecond: number | null;
};
