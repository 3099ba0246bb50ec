import { hashKeyText } from '../../../../shared/values/key-text.ts';
import { object, secretText } from '../../../../shared/contract/schema-kinds.ts';
import { isInForce, mayUse } from '../../resources/access/access.ts';
import {
  isLinkToken,
  LINK_TOKEN_PREFIX,
  linkTokenColumns,
  linkTokenResult,
  ofLiveWorkspace,
  presentLinkToken,
  type LinkTokenRow,
} from '../../resources/access/link-tokens.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/link-token/{token}',
  tag: 'Link tokens',
  operationId: 'getLinkToken',
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
