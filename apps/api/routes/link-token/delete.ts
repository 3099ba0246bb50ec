import { ApiError } from '../../../../shared/contract/errors.ts';
import { hashKeyText } from '../../../../shared/values/key-text.ts';
import { object, secretText } from '../../../../shared/contract/schema-kinds.ts';
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
  method: 'delete',
  path: '/api/v1/link-token/{token}',
  tag: 'Link tokens',
  operationId: 'deleteLinkToken',
  summary: 'Revoke a link token',
  description: 'It is refused from then on, and within a second so are the sessions of the portal that it began.',
  permission: 'link:write',
  writes: true,
  params: object({ token: secretText('the link token', LINK_TOKEN_PREFIX) }),
  response: linkTokenResult,
  errors: ['link_token_not_found'],

  async handle({ sql, params, caller, audit }) {
    if (!isLinkToken(params.token)) throw new ApiError('link_token_not_found');
    const [before] = await sql<LinkTokenRow[]>`
      select ${linkTokenColumns(sql)}, revoked_at is null as valid from link_tokens
      where hash = ${hashKeyText(params.token)} and team_id = ${caller.teamId} and ${ofLiveWorkspace(sql)}
        ${caller.workspaceIds ? sql`and workspace_id = any(${[...caller.workspaceIds]})` : sql``}
      for no key update`;
    if (!before) throw new ApiError('link_token_not_found');
    await sql`update link_tokens set revoked_at = coalesce(revoked_at, now()) where id = ${before.id}`;
    const revoked = presentLinkToken({ ...before, valid: false });
    audit('link_token', before.id, presentLinkToken(before), revoked);
    return revoked;
  },
});
