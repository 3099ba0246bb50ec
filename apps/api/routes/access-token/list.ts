import { object } from '../../../../shared/contract/schema-kinds.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { accessToken, presentToken, tokenColumns, withinReach, type TokenRow } from '../../resources/access/tokens.ts';

export default route({
  method: 'get',
  path: '/api/v1/access-token',
  tag: 'Access tokens',
  operationId: 'listAccessTokens',
  summary: 'List access tokens, also revoked ones, without their secrets',
  description: 'Pages follow by `cursor`, in the order in which the tokens were made.',
  permission: 'token:write',
  query: object(pageParameters),
  response: object({ accessTokens: pageItems(accessToken), nextCursor }),

  async handle({ sql, query, caller }) {
    const read = (after: string, take: number) => sql<TokenRow[]>`
      select ${tokenColumns(sql)} from access_tokens
      where ${withinReach(sql, caller)} and id > ${after}
      order by id limit ${take}`;
    const { items, next } = await readPage(query, `tokens of ${caller.teamId}`, read, presentToken);
    return { accessTokens: items, ...next };
  },
});
