import { decodeProtectedHeader, errors, jwtVerify, SignJWT, type JWTPayload } from 'jose';
import type { Caller } from '../../../../shared/contract/caller.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { publicKeyOf, type PublicJwk, type SigningKey, isIssuerOf } from './signing-keys.ts';

/** Most workspaces in a JWT: with these, 4 KiB of payload and an audience it fits into 8 KiB of a request's headers. */
export const MAX_WORKSPACES = 32;
export const JTI_PATTERN = '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$';

/** The claim with the ids of the workspaces that a JWT is limited to. A JWT without it is its team's. */
export const WORKSPACES_CLAIM = 'keytally_workspaces';
/** The claims that the service sets; a payload may not contain them. */
export const registeredClaims = ['iss', 'aud', 'exp', 'iat', 'nbf', 'jti', WORKSPACES_CLAIM] as const;

const ALGORITHM = 'EdDSA';

/** Why a JWT with a good signature is INVALID all the same. */
export const invalidReasons = ['REVOKED', 'KEY_RETIRED', 'WORKSPACE_FORBIDDEN'] as const;

type OwnClaims = JWTPayload & { exp: number; jti: string; [WORKSPACES_CLAIM]?: string[] };
/** What a JWT is worth. `claims` are there if its signature is the team's, also of one that is INVALID for a reason. */
export type CheckedJwt =
  | { status: 'VALID' | 'EXPIRED'; claims: OwnClaims }
  | { status: 'INVALID'; claims?: OwnClaims; reason?: (typeof invalidReasons)[number] };

/** Signs claims. */
export function signJwt({ kid, privateKey }: SigningKey, claims: JWTPayload): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg: ALGORITHM, kid, typ: 'JWT' }).sign(privateKey);
}

/**
 * Checks a JWT for a caller. The algorithm is pinned, and the key is the team's own key of exactly this kid. Keys in the
 * header, or places to fetch keys from (`jwk`, `jku`, `x5c`, `x5u`), are ignored.
 */
export async function checkJwt(
  sql: Query,
  caller: Pick<Caller, 'teamId' | 'workspaceIds'>,
  jwt: string,
  now: Date,
): Promise<CheckedJwt> {
  const key = isCanonical(jwt) && (await findKey(sql, caller.teamId, jwt));
  const checked = key && (await checkSignature(jwt, key.publicJwk, now));
  if (!checked || !isIssuerOf(caller.teamId, checked.claims.iss)) return { status: 'INVALID' };
  const { claims, isExpired } = checked;
  const invalid = (reason: (typeof invalidReasons)[number]) => ({ status: 'INVALID', reason, claims }) as const;
  if (key.isRevoked) return invalid('KEY_RETIRED');
  const standing = await readStanding(sql, caller, claims);
  if (!standing.isUsable) return invalid('WORKSPACE_FORBIDDEN');
  if (isExpired) return { status: 'EXPIRED', claims };
  // Every JWT that the key has signed has expired by now: only a thief of the key can have made this one.
  if (!key.isPublished) return invalid('KEY_RETIRED');
  if (standing.isRevoked) return invalid('REVOKED');
  return { status: 'VALID', claims };
}

/** What a payload was before the service added its claims. */
export function givenPayload(claims: JWTPayload): Record<string, unknown> {
  const given = Object.entries(claims).filter(([name]) => !(registeredClaims as readonly string[]).includes(name));
  return Object.fromEntries(given);
}

type Key = { publicJwk: PublicJwk; isRevoked: boolean; isPublished: boolean };

async function findKey(sql: Query, teamId: string, jwt: string): Promise<Key | undefined> {
  const kid = kidOf(jwt);
  if (kid === undefined) return undefined;
  const [key] = await sql<Key[]>`
    select public_jwk, revoked_at is not null as is_revoked, published_until > now() as is_published
    from signing_keys where team_id = ${teamId} and kid = ${kid}`;
  return key;
}

// A key's SHA-256 thumbprint (RFC 7638).
function kidOf(jwt: string): string | undefined {
  try {
    const { kid } = decodeProtectedHeader(jwt);
    return typeof kid === 'string' && /^[\w-]{43}$/.test(kid) ? kid : undefined;
  } catch {
    return undefined;
  }
}

/** What stands against claims that the team has signed. */
async function readStanding(
  sql: Query,
  { teamId, workspaceIds }: Pick<Caller, 'teamId' | 'workspaceIds'>,
  { jti, [WORKSPACES_CLAIM]: limits }: OwnClaims,
): Promise<{ isRevoked: boolean; isUsable: boolean }> {
  const revocable = new RegExp(JTI_PATTERN).test(jti) ? jti : null;
  const usable = limits?.filter((one) => workspaceIds?.includes(one) ?? true);
  const [row] = await sql<[{ isRevoked: boolean; isUsable: boolean }]>`
    select exists (select from revoked_jwts where team_id = ${teamId} and jti = ${revocable}::uuid) as is_revoked,
           ${usable === undefined} or exists (
             select from workspaces where id = any(${usable ?? []}) and team_id = ${teamId} and deleted_at is null) as is_usable`;
  return row;
}

async function checkSignature(
  jwt: string,
  jwk: PublicJwk,
  now: Date,
): Promise<{ claims: OwnClaims; isExpired: boolean } | undefined> {
  try {
    const options = { algorithms: [ALGORITHM], requiredClaims: ['iss', 'exp', 'iat', 'jti'], currentDate: now };
    const { payload } = await jwtVerify<OwnClaims>(jwt, publicKeyOf(jwk), options);
    return { claims: payload, isExpired: false };
  } catch (error) {
    // jose checks the time last: an expired JWT has passed every other check.
    if (error instanceof errors.JWTExpired) return { claims: error.payload as OwnClaims, isExpired: true };
    if (error instanceof errors.JOSEError) return undefined;
    throw error;
  }
}

// Each JWT has exactly one valid text: no white space, and no differing unused bits in its base64url.
function isCanonical(jwt: string): boolean {
  const parts = jwt.split('.', 4);
  return parts.length === 3 && parts.every((part) => Buffer.from(part, 'base64url').toString('base64url') === part);
}
