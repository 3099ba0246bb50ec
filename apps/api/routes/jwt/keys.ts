import { Type } from 'typebox';
import { isId } from '../../../../shared/values/ids.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { publicJwk } from '../../resources/signing-keys.ts';

export default route({
  method: 'get',
  path: '/.well-known/jwks.json',
  tag: 'JWT',
  summary: 'Get public signing keys as a JWK set, to verify JWTs without the service',
  query: object({ team: Type.Optional(id('team', ' whose keys to answer; absent: all teams')) }),
  response: object({ keys: Type.Array(publicJwk, { maxItems: 1_000_000 }) }),

  async handle({ sql, query, signingKeys }) {
    if (query.team !== undefined && !isId(query.team)) return { keys: [] };
    return { keys: await signingKeys.jwks(sql, query.team) };
  },
});
