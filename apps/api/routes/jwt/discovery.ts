import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, MOST_TEXT, object } from '../../../../shared/contract/schema-kinds.ts';
import { presentJwtSettings } from '../../resources/jwts/settings.ts';
import { route } from '../../http/route.ts';

const fixed = {
  response_types_supported: ['id_token' as const],
  subject_types_supported: ['public' as const],
  id_token_signing_alg_values_supported: ['EdDSA' as const],
};
const ISSUER = 'https://api.example.com/team/team_01kafc6v3nf0qtmhd7d5ryx2s9';

export default route({
  method: 'get',
  path: '/team/{team}/.well-known/openid-configuration',
  tag: 'JWT',
  operationId: 'getOpenIdConfiguration',
  summary: 'Find the key set of a team whose JWTs name a URL as issuer, as OIDC libraries do',
  description: 'The OpenID Connect discovery document of a team: the key set is found by the issuer.',
  params: object({ team: id('team') }),
  // What OpenID Connect Discovery 1.0 requires, as far as it is about keys: keytally logs nobody in.
  response: object({
    issuer: Type.String({ maxLength: MOST_TEXT, description: 'the `iss` of the JWTs', examples: [ISSUER] }),
    jwks_uri: Type.String({
      maxLength: MOST_TEXT,
      description: 'address of the key set',
      examples: [`${ISSUER}/.well-known/jwks.json`],
    }),
    response_types_supported: Type.Array(Type.Enum(['id_token']), { maxItems: 1 }),
    subject_types_supported: Type.Array(Type.Enum(['public']), { maxItems: 1 }),
    id_token_signing_alg_values_supported: Type.Array(Type.Enum(['EdDSA']), { maxItems: 1 }),
  }),
  errors: ['issuer_not_found'],

  async handle({ params, keySets, publicUrl }) {
    const { issuer } = await keySets.ofTeam(params.team);
    if (issuer !== 'URL' || !URL.canParse(publicUrl)) throw new ApiError('issuer_not_found');
    const { iss, jwksUri } = presentJwtSettings(params.team, { issuer, sharedKeySet: true }, publicUrl);
    return { issuer: iss, jwks_uri: jwksUri, ...fixed };
  },
});
