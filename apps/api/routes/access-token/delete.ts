import { ApiError } from '../../../../shared/contract/errors.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { accessToken, presentToken, tokenColumns, withinReach, type TokenRow } from '../../resources/tokens.ts';

export default route({
  method: 'delete',
  path: '/api/v1/access-token/{id}',
  tag: 'Access tokens',
  summary: 'Revoke an access token, also your own; within a second it is refused',
  permission: 'token:write',
  writes: true,
  params: object({ id: id('access token') }),
  response: object({ accessToken }),
  errors: ['access_token_not_found'],

  async handle({ sql, params, caller, changed, audit }) {
    const [before] = isId(params.id)
      ? await sql<TokenRow[]>`
          select ${tokenColumns(sql)} from access_tokens
          where id = ${params.id} and ${withinReach(sql, caller)} for no key update`
      : [];
    if (!before) throw new ApiError('access_token_not_found');
    const [row] = await sql<[TokenRow]>`
      update access_tokens set revoked_at = coalesce(revoked_at, now()), version = version + 1, updated_at = now()
      where id = ${before.id}
      returning ${tokenColumns(sql)}`;
    const accessToken = presentToken(row);
    changed('token', row.id, row.shard);
    audit('access_token', row.id, presentToken(before), accessToken);
    return { accessToken };
  },
});
