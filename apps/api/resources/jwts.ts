import { randomUUID } from 'node:crypto';
import { errors, jwtVerify, SignJWT, type JWTPayload } from 'jose';
import { Type } from 'typebox';
import { MOST_TEXT } from '../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import type { SigningKey, SigningKeys } from './signing-keys.ts';

/** A JWT as text; the example belongs to nobody. */
export const jwt = Type.String({
  maxLength: MOST_TEXT,
  description: 'the JWT',
  examples: ['eyJhbGciOiJFZERTQSIsImtpZCI6ImtQcksiLCJ0eXAiOiJKV1QifQ.eyJyb2xlIjoiYWRtaW4ifQ.c2lnbmF0dXJl'],
});
export const audience = Type.String({
  minLength: 1,
  maxLength: 256,
  description: 'the recipient that the JWT is meant for',
  examples: ['https://app.example.com'],
});

/** The claims that the service sets; a payload may not contain them. */
export const registeredClaims = ['iss', 'aud', 'exp', 'iat', 'nbf', 'jti'] as const;

const ALGORITHM = 'EdDSA';

export type NewJwt = {
  payload: Record<string, unknown>;
  audience: string | undefined;
  teamId: string;
  lifetimeSeconds: number;
  nowSeconds: number;
};

/** The result of verifying a JWT. Times are Unix seconds, as in the claims. */
export type JwtResult =
  { status: 'VALID' | 'EXPIRED'; payload: Record<string, unknown>; exp: number; aud?: string } | { status: 'INVALID' };

/** Signs a payload for a team. */
export function signJwt({ kid, privateKey }: SigningKey, jwt: NewJwt): Promise<string> {
  const { payload, audience, teamId, lifetimeSeconds, nowSeconds } = jwt;
  const unsigned = new SignJWT(payload)
    .setProtectedHeader({ alg: ALGORITHM, kid, typ: 'JWT' })
    .setIssuer(teamId)
    .setJti(randomUUID())
    .setIssuedAt(nowSeconds)
    .setExpirationTime(nowSeconds + lifetimeSeconds);
  if (audience !== undefined) unsigned.setAudience(audience);
  return unsigned.sign(privateKey);
}

/**
 * Verifies a JWT for a team. The algorithm is pinned, and the key is the team's own key of exactly this kid. Keys in the
 * header, or places to fetch keys from (`jwk`, `jku`, `x5c`, `x5u`), are ignored.
 */
export async function verifyJwt(
  sql: Query,
  keys: SigningKeys,
  teamId: string,
  jwt: string,
  now: Date,
): Promise<JwtResult> {
  if (!isCanonical(jwt)) return { status: 'INVALID' };
  try {
    const { payload } = await jwtVerify(
      jwt,
      async ({ kid }) => {
        const key = isKid(kid) ? await keys.find(sql, teamId, kid) : undefined;
        if (!key) throw new errors.JWKSNoMatchingKey();
        return key;
      },
      { algorithms: [ALGORITHM], issuer: teamId, requiredClaims: ['exp', 'iat', 'jti'], currentDate: now },
    );
    return { status: 'VALID', ...resultOf(payload) };
  } catch (error) {
    // jose checks the time last: an expired JWT has passed every other check.
    if (error instanceof errors.JWTExpired) return { status: 'EXPIRED', ...resultOf(error.payload) };
    if (error instanceof errors.JOSEError) return { status: 'INVALID' };
    throw error;
  }
}

// Each JWT has exactly one valid text: no white space, and no differing unused bits in its base64url.
function isCanonical(jwt: string): boolean {
  const parts = jwt.split('.');
  return parts.length === 3 && parts.every((part) => Buffer.from(part, 'base64url').toString('base64url') === part);
}

function resultOf(claims: JWTPayload) {
  const given = Object.entries(claims).filter(([name]) => !(registeredClaims as readonly string[]).includes(name));
  return {
    payload: Object.fromEntries(given),
    exp: claims.exp!,
    ...(typeof claims.aud === 'string' && { aud: claims.aud }),
  };
}

// A key's SHA-256 thumbprint (RFC 7638).
function isKid(kid: unknown): kid is string {
  return typeof kid === 'string' && /^[\w-]{43}$/.test(kid);
}
