import { Type } from 'typebox';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { keySet, keySetAnswer } from '../../resources/jwts/key-sets.ts';

export default route({
  method: 'get',
  path: '/.well-known/jwks.json',
  tag: 'JWT',
  operationId: 'getSharedKeySet',
  summary: "Get the public signing keys of all teams that share them; to verify JWTs, use your team's own address",
  description: 'The public keys of all teams but those that opted out.',
  query: object({ team: Type.Optional(id('team', ' whose keys to answer; absent: all teams')) }),
  response: keySet,
  cacheable: true,

  async handle({ query, keySets }) {
    if (query.team === undefined) return keySets.shared();
    return keySetAnswer((await keySets.ofTeam(query.team)).keys);
  },
});
