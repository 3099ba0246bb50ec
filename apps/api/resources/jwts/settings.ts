import { Type, type Static } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { MOST_TEXT, named, object, plainText } from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';

const ISSUERS = ['TEAM_ID', 'URL'] as const;

/** What a team may choose for its JWTs. */
export const jwtSettingsChange = object({
  sharedKeySet: Type.Optional(
    Type.Boolean({ description: "whether the key set of all teams contains the team's keys", examples: [false] }),
  ),
  issuer: Type.Optional(
    Type.Enum([...ISSUERS], {
      description: "what new JWTs name as `iss`: the team's id, or a URL from which OIDC libraries find the key set",
    }),
  ),
});

/** A team's JWT settings as the API answers them. */
export const jwtSettings = named(
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

export type JwtSettings = { sharedKeySet: boolean; issuer: (typeof ISSUERS)[number] };

/** Reads a team's settings. `lock` locks its row: its signing keys and revocations change one after the other. */
export async function readJwtSettings(sql: Query, teamId: string, { lock = false } = {}): Promise<JwtSettings> {
  const [row] = await sql<[JwtSettings]>`
    select shares_signing_keys as shared_key_set, jwt_issuer as issuer from teams where id = ${teamId}
    ${lock ? sql`for no key update` : sql``}`;
  return row;
}

/** Stores a team's settings, whose row must be locked. Its keys carry a copy of `sharedKeySet`, by which the shared set is read. */
export async function storeJwtSettings(
  sql: Query,
  teamId: string,
  { sharedKeySet, issuer }: JwtSettings,
): Promise<void> {
  await sql`update teams set shares_signing_keys = ${sharedKeySet}, jwt_issuer = ${issuer} where id = ${teamId}`;
  await sql`
    update signing_keys set shared = ${sharedKeySet}
    where team_id = ${teamId} and published_until > now() and shared <> ${sharedKeySet}`;
}

/** The settings as the API answers them. */
export function presentJwtSettings(
  teamId: string,
  settings: JwtSettings,
  publicUrl: string,
): Static<typeof jwtSettings> {
  const { sharedKeySet, issuer } = settings;
  const iss = issuerOf(teamId, issuer, publicUrl);
  return { sharedKeySet, issuer, iss, jwksUri: `${teamUrl(teamId, publicUrl)}/.well-known/jwks.json` };
}

/** The `iss` of a team's new JWTs. Throws where it is to be a URL and the operator has not said which. */
export function issuerOf(teamId: string, issuer: JwtSettings['issuer'], publicUrl: string): string {
  if (issuer === 'TEAM_ID') return teamId;
  if (!URL.canParse(publicUrl)) throw new ApiError('issuer_url_unknown');
  return teamUrl(teamId, publicUrl);
}

/** Whether a text is one of the issuers that a team's JWTs name; the URL may be that of an earlier PUBLIC_API_URL. */
export function isIssuerOf(teamId: string, iss: unknown): boolean {
  return typeof iss === 'string' && (iss === teamId || iss.endsWith(teamPath(teamId)));
}

function teamUrl(teamId: string, publicUrl: string): string {
  return `${publicUrl.replace(/\/$/, '')}${teamPath(teamId)}`;
}

function teamPath(teamId: string): string {
  return `/team/${teamId}`;
}
