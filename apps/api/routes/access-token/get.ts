import { ApiError } from '../../../../shared/contract/errors.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { accessToken, presentToken, tokenColumns, withinReach, type TokenRow } from '../../resources/access/tokens.ts';

export default route({
  method: 'get',
  path: '/api/v1/access-token/{id}',
  tag: 'Access tokens',
  operationId: 'getAccessToken',
  summary: 'Get an access token, without its secret',
  description: 'Gives the permissions, workspaces, addresses and end of a token.',
  permission: 'token:write',
  params: object({ id: id('access token') }),
  response: object({ accessToken }),
  errors: ['access_token_not_found'],

  async handle({ sql, params, caller }) {
    const [row] = isId(params.id)
      ? await sql<TokenRow[]>`
          select ${tokenColumns(sql)} from access_tokens where id = ${params.id} and ${withinReach(sql, caller)}`
      : [];
    if (!row) throw new ApiError('access_token_not_found');
    return { accessToken: presentToken(row) };
  },
});
