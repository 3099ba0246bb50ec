import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { keySet, keySetAnswer } from '../../resources/jwts/key-sets.ts';

export default route({
  method: 'get',
  path: '/team/{team}/.well-known/jwks.json',
  tag: 'JWT',
  operationId: 'getTeamKeySet',
  summary: "Get a team's public signing keys as a JWK set, to verify its JWTs without the service",
  description:
    'For whoever verifies JWTs without asking the service. Caches may keep the answer as long as its Cache-Control says.',
  params: object({ team: id('team') }),
  response: keySet,
  cacheable: true,

  async handle({ params, keySets }) {
    return keySetAnswer((await keySets.ofTeam(params.team)).keys);
  },
});
