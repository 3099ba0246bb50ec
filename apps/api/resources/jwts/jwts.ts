import { decodeJwt, decodeProtectedHeader, errors, jwtVerify, SignJWT, type JWTPayload } from 'jose';
import type { Caller } from '../../../../shared/contract/caller.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { isId } from '../../../../shared/values/ids.ts';
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
  const named = isCanonical(jwt) && namedBy(jwt);
  const standing = named && (await readStanding(sql, caller, named));
  if (!standing) return { status: 'INVALID' };
  const checked = await checkSignature(jwt, standing.publicJwk, now);
  if (!checked || !isIssuerOf(caller.teamId, checked.claims.iss)) return { status: 'INVALID' };
  const { claims, isExpired } = checked;
  const invalid = (reason: (typeof invalidReasons)[number]) => ({ status: 'INVALID', reason, claims }) as const;
  if (standing.isKeyRevoked) return invalid('KEY_RETIRED');
  if (!standing.isUsable) return invalid('WORKSPACE_FORBIDDEN');
  if (isExpired) return { status: 'EXPIRED', claims };
  // Every JWT that the key has signed has expired by now: only a thief of the key can have made this one.
  if (!standing.isPublished) return invalid('KEY_RETIRED');
  if (standing.isRevoked) return invalid('REVOKED');
  return { status: 'VALID', claims };
}

/** What a payload was before the service added its claims. */
export function givenPayload(claims: JWTPayload): Record<string, unknown> {
  const given = Object.entries(claims).filter(([name]) => !(registeredClaims as readonly string[]).includes(name));
  return Object.fromEntries(given);
}

type Named = { kid: string; jti: string | null; workspaceIds: string[] | undefined };
type Standing = Record<'isKeyRevoked' | 'isPublished' | 'isRevoked' | 'isUsable', boolean> & { publicJwk: PublicJwk };

// What a JWT says of itself, to look it up by. The signature is checked after that: until then nothing of it is believed.
function namedBy(jwt: string): Named | undefined {
  try {
    const { kid } = decodeProtectedHeader(jwt);
    const { jti, [WORKSPACES_CLAIM]: workspaceIds } = decodeJwt(jwt);
    if (!isKid(kid) || !(workspaceIds === undefined || isListOfIds(workspaceIds))) return undefined;
    return { kid, jti: isUuid(jti) ? jti : null, workspaceIds };
  } catch {
    return undefined;
  }
}

async function readStanding(
  sql: Query,
  caller: Pick<Caller, 'teamId' | 'workspaceIds'>,
  { kid, jti, workspaceIds }: Named,
): Promise<Standing | undefined> {
  const { teamId } = caller;
  const usable = workspaceIds?.filter((one) => caller.workspaceIds?.includes(one) ?? true) ?? null;
  const [row] = await sql<Standing[]>`
    select k.public_jwk, k.revoked_at is not null as is_key_revoked, k.published_until > now() as is_published,
           exists (select from revoked_jwts r where r.team_id = ${teamId} and r.jti = ${jti}::uuid) as is_revoked,
           ${usable === null} or exists (
             select from workspaces w
             where w.id = any(${usable ?? []}) and w.team_id = ${teamId} and w.deleted_at is null) as is_usable
    from signing_keys k where k.team_id = ${teamId} and k.kid = ${kid}`;
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

// A key's SHA-256 thumbprint (RFC 7638).
function isKid(kid: unknown): kid is string {
  return typeof kid === 'string' && /^[\w-]{43}$/.test(kid);
}

function isUuid(text: unknown): text is string {
  return typeof text === 'string' && new RegExp(JTI_PATTERN).test(text);
}

function isListOfIds(value: unknown): value is string[] {
  return (
    Array.isArray(value) && value.length <= MAX_WORKSPACES && value.every((one) => typeof one === 'string' && isId(one))
  );
}
