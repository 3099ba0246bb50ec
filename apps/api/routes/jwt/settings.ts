import { Type, type Static } from 'typebox';
import { MOST_TEXT, named, object, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import { issuerOf, ISSUERS, readJwtSettings, teamUrl, type JwtSettings } from '../../resources/jwts/signing-keys.ts';

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
    changed('jwt_settings', teamId, { before, after });
    return answer;
  },
});

function present(teamId: string, settings: JwtSettings, publicUrl: string): Static<typeof jwtSettings> {
  const iss = issuerOf(teamId, settings.issuer, publicUrl);
  return { ...settings, iss, jwksUri: `${teamUrl(teamId, publicUrl)}/.well-known/jwks.json` };
}
