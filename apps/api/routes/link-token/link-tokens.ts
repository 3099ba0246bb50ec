import { Type } from 'typebox';
import type { Permission } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, instant, object, secretText } from '../../../../shared/contract/schema-kinds.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { hashKeyText, makeKeyText, randomShard } from '../../../../shared/values/key-text.ts';
import { route } from '../../http/route.ts';
import { requireHeld, requireWorkspace } from '../../resources/access/access.ts';
import {
  LINK_TOKEN_PREFIX,
  findLinkToken,
  linked,
  linkTokens,
  linkTokenResult,
} from '../../resources/access/link-tokens.ts';
import { revokeLinkTokens } from '../../resources/revocations/revocations.ts';
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
  ...linked,
});

export const createLinkToken = route('post', '/api/v1/link-token', {
  summary: 'Create a link token',
  description:
    'A link token stands for a customer in a link that you hand out, until it ends or is revoked. At /portal#<link token> that customer sees the own keys and usage. Your access token must hold what it gives: key:read, billing:read and usage:read, for `rotate` also key:write.',
  permission: 'link:write',
  status: 201,
  body: object({
    ...linked,
    expiresIn: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 86_400,
        default: DEFAULT_SECONDS,
        description: 'lifetime in seconds; it ends no later than your own token',
      }),
    ),
  }),
  response: object({ linkToken: newLinkToken }),
  errors: ['workspace_forbidden', 'permission_not_grantable', 'billing_not_found'],

  async handle({ sql, body, caller, changed }) {
    await requireWorkspace(sql, caller, body.workspaceId, { hold: true });
    const { expiresIn = DEFAULT_SECONDS, permissions = [], ...of } = body;
    requireHeld(caller, permissions.includes('rotate') ? [...GIVES, ROTATE_GIVES] : GIVES);
    if (of.billingId !== undefined) {
      const record = await requireBilling(sql, caller, of.billingId);
      if (record.workspaceId !== of.workspaceId) throw new ApiError('billing_not_found');
    }
    const token = makeKeyText(LINK_TOKEN_PREFIX, randomShard());
    const row = await linkTokens.insert(sql, {
      id: newId('link'),
      teamId: caller.teamId,
      ...of,
      permissions,
      createdBy: caller.tokenId,
      hash: hashKeyText(token),
      // Postgres's clock, which also tells when it has expired.
      expiresAt: sql`least(floor(extract(epoch from now()) * 1000) + ${expiresIn * 1000}::bigint,
                           (select expires_at from access_tokens where id = ${caller.tokenId}))`,
    });
    linkTokens.say(changed, { after: row });
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
    const row = await findLinkToken(sql, caller, params.token);
    return row ? linkTokens.present(row) : { valid: false };
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
    const row = await findLinkToken(sql, caller, params.token);
    if (!row) throw new ApiError('link_token_not_found');
    changed(...(await revokeLinkTokens(sql, sql`id = ${row.id}`)));
    return linkTokens.present({ ...row, valid: false });
  },
});
