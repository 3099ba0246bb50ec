import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { isId } from '../../../../shared/values/ids.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { auditClient, originOf } from '../../resources/audit.ts';
import { revokeToken, tokenLine } from '../../resources/revocations/revocations.ts';
import { accessToken, presentToken, tokenColumns, withinReach, type TokenRow } from '../../resources/access/tokens.ts';

const operation = { method: 'delete', path: '/api/v1/access-token/{id}' } as const;

export default route({
  ...operation,
  tag: 'Access tokens',
  operationId: 'deleteAccessToken',
  summary: 'Revoke an access token, also your own, with all that it made; within a second they are refused',
  description:
    'The tokens that it made, and that these made, end with it, unless `descendants=false` keeps them. A token cannot revoke one that made it, directly or through others.',
  permission: 'token:write',
  writes: true,
  revokes: true,
  params: object({ id: id('access token') }),
  query: object({
    descendants: Type.Boolean({
      default: true,
      description: 'whether the tokens that it made, and that these made, are revoked too',
    }),
  }),
  response: object({
    accessToken,
    descendants: object({
      revoked: Type.Integer({ description: 'how many of its descendants this call revoked', examples: [2] }),
      pending: Type.Boolean({
        description:
          'whether more follow within minutes; the api refuses these already, and verifies for no longer than that',
      }),
    }),
  }),
  errors: ['access_token_not_found', 'token_above'],

  async handle({ sql, params, query, caller, requestId, clientAddress, header, changed, audit }) {
    const [before] = isId(params.id)
      ? await sql<TokenRow[]>`
          select ${tokenColumns(sql)} from access_tokens
          where id = ${params.id} and ${withinReach(sql, caller)} for no key update`
      : [];
    if (!before) throw new ApiError('access_token_not_found');
    if (await isAbove(sql, before.id, caller)) throw new ApiError('token_above');
    const origin = originOf(operation, caller, requestId, auditClient(clientAddress, header('user-agent')));
    const { row, below, pending } = await revokeToken(sql, before.id, origin, query);
    for (const one of [row, ...below]) changed('token', one.id, one.shard);
    audit('access_token', row.id, presentToken(before), presentToken(row));
    for (const one of below.map(tokenLine)) audit(one.resource, one.id, one.before, one.after);
    return { accessToken: presentToken(row), descendants: { revoked: below.length, pending } };
  },
});

/** Whether a token made the caller's, or one above it. A leaked child would lock out those who can end it. */
async function isAbove(sql: Query, id: string, { tokenId }: Caller): Promise<boolean> {
  const [row] = await sql<[{ isAbove: boolean }]>`
    with recursive makers (id) as (
      select created_by from access_tokens where id = ${tokenId}
      union
      select t.created_by from makers m join access_tokens t on t.id = m.id where t.created_by is not null)
    select exists (select from makers where id = ${id}) as is_above`;
  return row.isAbove;
}
