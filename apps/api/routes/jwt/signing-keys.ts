import { Type, type Static } from 'typebox';
import { MOST_TEXT, named, object, plainText, id, flag } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import {
  issuerOf,
  ISSUERS,
  readJwtSettings,
  teamUrl,
  type JwtSettings,
  kid,
} from '../../resources/jwts/signing-keys.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { keySet, keySetAnswer } from '../../resources/jwts/key-sets.ts';

const jwtSettings = named(
  'JwtSettings',
  object({
    sharedKeySet: Type.Boolean({ description: "whether the key set of all teams contains the team's keys" }),
    issuer: Type.Enum([...ISSUERS], { description: 'what new JWTs name as `iss`' }),
    iss: plainText(MOST_TEXT, 'the `iss` of new JWTs', 'team_01kafc6v3nf0qtmhd7d5ryx2s9'),
    jwksUri: Type.String({
      maxLength: MOST_TEXT,
      description: "address of the team's own key set",
      examples: ['https://api.example.com/team/team_01kafc6v3nf0qtmhd7d5ryx2s9/.well-known/jwks.json'],
    }),
  }),
);

export const getJwtSettings = route('get', '/api/v1/jwt/settings', {
  summary: "Get what your team's JWTs name as issuer, and where its keys are published",
  description: 'Gives the issuer of JWTs and the addresses of their key sets.',
  permission: 'jwt:verify',
  response: object({ jwtSettings }),
  errors: ['issuer_url_unknown'],

  async handle({ sql, caller, publicUrl }) {
    return { jwtSettings: present(caller.teamId, await readJwtSettings(sql, caller.teamId), publicUrl) };
  },
});

export const updateJwtSettings = route('patch', '/api/v1/jwt/settings', {
  summary: "Change what your team's JWTs name as issuer, and whether its keys are in the key set of all teams",
  description:
    'Sets the issuer of JWTs that are signed from now on, and whether the keys are published among those of all teams.',
  permission: 'token:write',
  body: object({
    sharedKeySet: Type.Optional(
      Type.Boolean({ description: "whether the key set of all teams contains the team's keys", examples: [false] }),
    ),
    issuer: Type.Optional(
      Type.Enum([...ISSUERS], {
        description: "what new JWTs name as `iss`: the team's id, or a URL from which OIDC libraries find the key set",
      }),
    ),
  }),
  response: object({ jwtSettings }),
  errors: ['workspace_forbidden', 'issuer_url_unknown'],

  async handle({ sql, body, caller, changed, publicUrl }) {
    requireWholeTeam(caller);
    const { teamId } = caller;
    const before = await readJwtSettings(sql, teamId, { lock: true });
    const after = { ...before, ...body };
    const answer = { jwtSettings: present(teamId, after, publicUrl) };
    const { sharedKeySet, issuer } = after;
    await sql`update teams set shares_signing_keys = ${sharedKeySet}, jwt_issuer = ${issuer} where id = ${teamId}`;
    changed({ resource: 'jwt_settings', id: teamId, before, after });
    return answer;
  },
});

function present(teamId: string, settings: JwtSettings, publicUrl: string): Static<typeof jwtSettings> {
  const iss = issuerOf(teamId, settings.issuer, publicUrl);
  return { ...settings, iss, jwksUri: `${teamUrl(teamId, publicUrl)}/.well-known/jwks.json` };
}

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
    for (const one of retired) changed({ resource: 'signing_key', id: one, before: { kid: one } });
    changed({
      resource: 'signing_key',
      id: made,
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
