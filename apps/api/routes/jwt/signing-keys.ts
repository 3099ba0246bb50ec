import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { object, id, MOST_TEXT, plainText, flag } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import { keySet, keySetAnswer } from '../../resources/jwts/key-sets.ts';
import { kid, teamUrl } from '../../resources/jwts/signing-keys.ts';

const fixed = {
  response_types_supported: ['id_token' as const],
  subject_types_supported: ['public' as const],
  id_token_signing_alg_values_supported: ['EdDSA' as const],
};
const ISSUER = 'https://api.example.com/team/team_01kafc6v3nf0qtmhd7d5ryx2s9';

export const rotateSigningKey = route('post', '/api/v1/jwt/rotate', {
  summary: 'Sign with the next key from now on; JWTs of earlier keys keep verifying, unless you retire them',
  description:
    'Makes a new signing key. JWTs of earlier keys stay valid until they end; with `retireNow` they are refused at once.',
  permission: 'token:write',
  bodyOptional: true,
  body: object({
    retireNow: Type.Optional(
      flag('ends all earlier keys at once: they leave the key sets, and JWTs that they signed are INVALID', false),
    ),
  }),
  response: object({ kid }),
  errors: ['workspace_forbidden', 'signing_key_limit_reached'],

  async handle({ sql, body, caller, changed, signingKeys }) {
    requireWholeTeam(caller);
    const { retireNow = false } = body;
    const { kid: made, replaces, retired } = await signingKeys.rotate(sql, caller.teamId, { retireNow });
    for (const one of retired) changed('signing_key', one, { before: { kid: one } });
    changed('signing_key', made, {
      before: replaces === undefined ? undefined : { kid: replaces },
      after: { kid: made },
    });
    return { kid: made };
  },
});

export const getTeamKeySet = route('get', '/team/{team}/.well-known/jwks.json', {
  summary: "Get a team's public signing keys as a JWK set, to verify its JWTs without the service",
  description:
    'For whoever verifies JWTs without asking the service. Caches may keep the answer as long as its Cache-Control says.',
  response: keySet,
  cacheable: true,

  async handle({ params, keySets }) {
    return keySetAnswer((await keySets.ofTeam(params.team)).keys);
  },
});

export const getOpenIdConfiguration = route('get', '/team/{team}/.well-known/openid-configuration', {
  summary: 'Find the key set of a team whose JWTs name a URL as issuer, as OIDC libraries do',
  description: 'The OpenID Connect discovery document of a team: the key set is found by the issuer.',
  // What OpenID Connect Discovery 1.0 requires, as far as it is about keys: keytally logs nobody in.
  response: object({
    issuer: plainText(MOST_TEXT, 'the `iss` of the JWTs', ISSUER),
    jwks_uri: plainText(MOST_TEXT, 'address of the key set', `${ISSUER}/.well-known/jwks.json`),
    response_types_supported: Type.Array(Type.Enum(['id_token']), { maxItems: 1 }),
    subject_types_supported: Type.Array(Type.Enum(['public']), { maxItems: 1 }),
    id_token_signing_alg_values_supported: Type.Array(Type.Enum(['EdDSA']), { maxItems: 1 }),
  }),
  errors: ['issuer_not_found'],

  async handle({ params, keySets, publicUrl }) {
    const { issuer } = await keySets.ofTeam(params.team);
    if (issuer !== 'URL' || !URL.canParse(publicUrl)) throw new ApiError('issuer_not_found');
    const url = teamUrl(params.team, publicUrl);
    return { issuer: url, jwks_uri: `${url}/.well-known/jwks.json`, ...fixed };
  },
});

export const getSharedKeySet = route('get', '/.well-known/jwks.json', {
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
