import { Type } from 'typebox';
import type { Caller, Permission } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, instant, object, secretText } from '../../../../shared/contract/schema-kinds.ts';
import { customerId } from '../../../../shared/contract/schemas.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { hashKeyText, makeKeyText, randomShard } from '../../../../shared/values/key-text.ts';
import { route } from '../../http/route.ts';
import { requireWorkspace, isInForce, mayUse } from '../../resources/access/access.ts';
import {
  externalBillingId,
  LINK_TOKEN_PREFIX,
  linkTokenColumns,
  permissions,
  portalBillingId,
  presentLinkToken,
  isLinkToken,
  linkTokenResult,
  ofLiveWorkspace,
  type LinkTokenRow,
} from '../../resources/access/link-tokens.ts';
import { present } from '../../resources/rows.ts';
import { requireBilling } from '../../resources/billings/billings.ts';

const DEFAULT_SECONDS = 900;
// What a link token gives, and with `rotate`.
const GIVES: readonly Permission[] = ['key:read', 'billing:read', 'usage:read'];
const ROTATE_GIVES: Permission = 'key:write';

const newLinkToken = object({
  id: id('link token'),
  token: secretText('the link token; only this answer contains it', LINK_TOKEN_PREFIX),
  expiresAt: instant('when it expires'),
  workspaceId: id('workspace'),
  customerId,
  externalBillingId: Type.Optional(externalBillingId),
  billingId: Type.Optional(portalBillingId),
  permissions: Type.Optional(permissions),
});

export const createLinkToken = route('post', '/api/v1/link-token', {
  summary: 'Create a link token',
  description:
    'A link token stands for a customer in a link that you hand out, until it ends or is revoked. At /portal#<link token> that customer sees the own keys and usage. Your access token must hold what it gives: key:read, billing:read and usage:read, for `rotate` also key:write.',
  permission: 'link:write',
  status: 201,
  body: object({
    workspaceId: id('workspace'),
    customerId,
    externalBillingId: Type.Optional(externalBillingId),
    billingId: Type.Optional(portalBillingId),
    permissions: Type.Optional(permissions),
    expiresIn: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 86_400,
        default: DEFAULT_SECONDS,
        description: 'lifetime in seconds; it ends no later than your own token',
      }),
    ),
  }),
  response: object({
    linkToken: newLinkToken,
  }),
  errors: ['workspace_forbidden', 'permission_not_grantable', 'billing_not_found'],

  async handle({ sql, body, caller, changed }) {
    await requireWorkspace(sql, caller, body.workspaceId, { hold: true });
    const { workspaceId, customerId, externalBillingId, billingId, permissions = [] } = body;
    requireGrantable(caller, permissions.includes('rotate') ? [...GIVES, ROTATE_GIVES] : GIVES);
    if (billingId !== undefined) {
      const record = await requireBilling(sql, caller, billingId);
      if (record.workspaceId !== workspaceId) throw new ApiError('billing_not_found');
    }
    const { expiresIn = DEFAULT_SECONDS } = body;
    const token = makeKeyText(LINK_TOKEN_PREFIX, randomShard());
    const [row] = await sql<[LinkTokenRow]>`
      insert into link_tokens
        (id, team_id, workspace_id, customer_id, external_billing_id, billing_id, permissions, created_by, hash, expires_at)
      values (${newId('link')}, ${caller.teamId}, ${workspaceId}, ${customerId}, ${externalBillingId ?? null},
              ${billingId ?? null}, ${permissions}, ${caller.tokenId}, ${hashKeyText(token)},
              least(floor(extract(epoch from now()) * 1000) + ${expiresIn * 1000}::bigint,
                    (select expires_at from access_tokens where id = ${caller.tokenId})))
      returning ${linkTokenColumns(sql)}, true as valid`;
    changed('link_token', row.id, { after: presentLinkToken(row) });
    return { linkToken: present(newLinkToken, { ...row, token }) };
  },
});

export const getLinkToken = route('get', '/api/v1/link-token/{token}', {
  summary: 'Validate a link token',
  description:
    'Says whether a link token holds, and what it stands for. An unknown one is not valid, like one that ended.',
  permission: 'link:read',
  params: object({ token: secretText('the link token', LINK_TOKEN_PREFIX) }),
  response: linkTokenResult,

  async handle({ sql, params, caller }) {
    if (!isLinkToken(params.token)) return { valid: false };
    // Postgres's clock, which also set the expiry.
    const [row] = await sql<LinkTokenRow[]>`
      select ${linkTokenColumns(sql)},
        revoked_at is null and expires_at > extract(epoch from now()) * 1000
        and exists (select from access_tokens t where t.id = link_tokens.created_by and ${isInForce(sql)}) as valid
      from link_tokens where hash = ${hashKeyText(params.token)} and team_id = ${caller.teamId}
        and ${ofLiveWorkspace(sql)}`;
    return row && mayUse(caller, row.workspaceId) ? presentLinkToken(row) : { valid: false };
  },
});

export const deleteLinkToken = route('delete', '/api/v1/link-token/{token}', {
  summary: 'Revoke a link token',
  description: 'It is refused from then on, and within a second so are the sessions of the portal that it began.',
  permission: 'link:write',
  params: object({ token: secretText('the link token', LINK_TOKEN_PREFIX) }),
  response: linkTokenResult,
  errors: ['link_token_not_found'],

  async handle({ sql, params, caller, changed }) {
    if (!isLinkToken(params.token)) throw new ApiError('link_token_not_found');
    const [before] = await sql<LinkTokenRow[]>`
      select ${linkTokenColumns(sql)}, revoked_at is null as valid from link_tokens
      where hash = ${hashKeyText(params.token)} and team_id = ${caller.teamId} and ${ofLiveWorkspace(sql)}
        ${caller.workspaceIds ? sql`and workspace_id = any(${[...caller.workspaceIds]})` : sql``}
      for no key update`;
    if (!before) throw new ApiError('link_token_not_found');
    await sql`update link_tokens set revoked_at = coalesce(revoked_at, now()) where id = ${before.id}`;
    const revoked = presentLinkToken({ ...before, valid: false });
    changed('link_token', before.id, { before: presentLinkToken(before), after: revoked });
    return revoked;
  },
});

/** Throws 403 unless the access token holds what the link token gives. */
function requireGrantable(caller: Caller, gives: readonly Permission[]): void {
  const lacking = gives.filter((permission) => !caller.permissions.has(permission));
  if (lacking.length === 0) return;
  const message = `A token can only grant what it holds itself, and it lacks ${lacking.join(', ')}.`;
  throw new ApiError('permission_not_grantable', { message });
}
