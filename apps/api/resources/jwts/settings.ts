import { ApiError } from '../../../../shared/contract/errors.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';

export const ISSUERS = ['TEAM_ID', 'URL'] as const;
export type JwtSettings = { sharedKeySet: boolean; issuer: (typeof ISSUERS)[number] };

/** Reads a team's settings. `lock` locks its row: its signing keys and revocations change one after the other. */
export async function readJwtSettings(sql: Query, teamId: string, { lock = false } = {}): Promise<JwtSettings> {
  const [row] = await sql<[JwtSettings]>`
    select shares_signing_keys as shared_key_set, jwt_issuer as issuer from teams where id = ${teamId}
    ${lock ? sql`for no key update` : sql``}`;
  return row;
}

/** The `iss` of a team's new JWTs. Throws where it is to be a URL and the operator has not said which. */
export function issuerOf(teamId: string, issuer: JwtSettings['issuer'], publicUrl: string): string {
  if (issuer === 'TEAM_ID') return teamId;
  if (!URL.canParse(publicUrl)) throw new ApiError('issuer_url_unknown');
  return teamUrl(teamId, publicUrl);
}

/** Whether a text is one of the issuers that a team's JWTs name; the URL may be that of an earlier PUBLIC_API_URL. */
export function isIssuerOf(teamId: string, iss: unknown): boolean {
  return typeof iss === 'string' && (iss === teamId || iss.endsWith(`/team/${teamId}`));
}

/** Where a team's own things are. */
export function teamUrl(teamId: string, publicUrl: string): string {
  return `${publicUrl.replace(/\/$/, '')}/team/${teamId}`;
}
