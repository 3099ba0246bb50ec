import { randomUUID } from 'node:crypto';
import { Type, type Static } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import {
  id,
  instant,
  jsonObject,
  MOST_TEXT,
  object,
  plainText,
  whole,
} from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { route } from '../../http/route.ts';
import { mayUse, requireWholeTeam } from '../../resources/access/access.ts';
import {
  checkJwt,
  givenPayload,
  invalidReasons,
  JTI_PATTERN,
  MAX_WORKSPACES,
  registeredClaims,
  signJwt,
  WORKSPACES_CLAIM,
  type CheckedJwt,
} from '../../resources/jwts/jwts.ts';
import { issuerOf, readJwtSettings } from '../../resources/jwts/signing-keys.ts';

const DEFAULT_SECONDS = 3600;
/** Most JWTs of a team that are revoked and not expired yet. Beyond it, a rotation with `retireNow` ends them all. */
export const MAX_REVOCATIONS = 10_000;

// The example belongs to nobody.
const jwt = plainText(
  MOST_TEXT,
  'the JWT',
  'eyJhbGciOiJFZERTQSIsImtpZCI6ImtQcksiLCJ0eXAiOiJKV1QifQ.eyJyb2xlIjoiYWRtaW4ifQ.c2lnbmF0dXJl',
);
const audience = Type.String({
  minLength: 1,
  maxLength: 256,
  description: 'the recipient that the JWT is meant for',
  examples: ['https://app.example.com'],
});
const workspaceIds = Type.Array(id('workspace'), {
  minItems: 1,
  maxItems: MAX_WORKSPACES,
  uniqueItems: true,
  description: 'the workspaces that the JWT is limited to; absent: those of the access token that signs it',
});
const jti = Type.String({
  pattern: JTI_PATTERN,
  description: 'the `jti` of a JWT',
  examples: ['0b7e3a52-4d0c-4d6e-9c57-5f8a1f0f7c1d'],
});
const response = object({
  status: Type.Enum(['VALID', 'EXPIRED', 'INVALID']),
  reason: Type.Optional(
    Type.Enum([...invalidReasons], { description: 'why a JWT that your team did sign is INVALID all the same' }),
  ),
  payload: Type.Optional(
    Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      maxProperties: 1024,
      'x-limits': { maxBytes: 4096, maxDepth: 10 },
      description: 'the payload as it was signed; present if the JWT is VALID or EXPIRED',
      examples: [{ role: 'admin' }],
    }),
  ),
  exp: Type.Optional(whole('when it expires, in Unix seconds', 1_795_162_200)),
  aud: Type.Optional(audience),
  workspaceIds: Type.Optional({
    ...workspaceIds,
    description: 'the workspaces that it is limited to; absent: it is for the whole team',
  }),
});

export const createJwt = route('post', '/api/v1/jwt', {
  summary: 'Sign a JWT, for the workspaces of your access token',
  description:
    'Signs a payload of your own with the key of your team. The claims of the service (`iss`, `iat`, `exp`, `jti`) are set by it.',
  permission: 'jwt:sign',
  status: 201,
  // The team's first JWT makes its signing key.
  body: object({
    // In base64, a JWT with 4 KiB of payload still fits into the 8 KiB that servers allow for a request's headers.
    payload: jsonObject('claims of your own', { maxBytes: 4096, maxDepth: 10 }, { role: 'admin' }),
    aud: Type.Optional(audience),
    exp: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 31_536_000,
        default: DEFAULT_SECONDS,
        description: 'lifetime in seconds',
      }),
    ),
    workspaceIds: Type.Optional(workspaceIds),
  }),
  response: object({ jwt }),
  errors: ['registered_claim', 'workspace_forbidden', 'issuer_url_unknown'],

  async handle({ sql, body, caller, changed, signingKeys, publicUrl, clock }) {
    const { payload, aud, exp = DEFAULT_SECONDS } = body;
    refuseRegistered(payload);
    const workspaceIds = await signableWorkspaces(sql, caller, body.workspaceIds);
    const key = await signingKeys.current(sql, caller.teamId, exp);
    if ('isNew' in key) changed({ resource: 'signing_key', id: key.kid, after: { kid: key.kid } });
    const iss = issuerOf(caller.teamId, key.issuer, publicUrl);
    const iat = Math.floor(clock.now() / 1000);
    const given = { ...payload, ...(aud !== undefined && { aud }) };
    const claims = { ...given, iss, jti: randomUUID(), iat, exp: iat + exp, [WORKSPACES_CLAIM]: workspaceIds };
    return { jwt: await signJwt(key, claims) };
  },
});

export const verifyJwt = route('post', '/api/v1/jwt/verify', {
  writes: false,
  summary: 'Verify a JWT of your team',
  description: 'Checks the signature, the end and the revocation of a JWT. INVALID is an answer, not an error.',
  permission: 'jwt:verify',
  body: object({ jwt }),
  response,

  async handle({ sql, body, caller, clock }) {
    return present(await checkJwt(sql, caller, body.jwt, new Date(clock.now())));
  },
});

export const revokeJwt = route('post', '/api/v1/jwt/revoke', {
  summary: 'Revoke a JWT of your team by its `jti`, or by the JWT itself: INVALID at the next verification',
  description: 'The service refuses the JWT from then on. Whoever verifies by the key set alone learns nothing of it.',
  permission: 'jwt:revoke',
  body: object({ jti: Type.Optional(jti), jwt: Type.Optional(jwt) }),
  response: object({ jti, expiresAt: instant('until when the revocation is kept: by then the JWT has expired') }),
  errors: ['workspace_forbidden', 'jwt_not_of_team', 'revocation_limit_reached'],

  async handle({ sql, body, caller, changed, clock }) {
    if ((body.jti === undefined) === (body.jwt === undefined))
      throw invalidField('/jti', 'must be given, or jwt, and not both');
    const { jti, expiresAt, isOver } = await revocable(sql, caller, body, new Date(clock.now()));
    if (isOver) return { jti, expiresAt: expiresAt!.getTime() };
    const revoked = await storeRevokedJwt(sql, caller.teamId, jti, expiresAt);
    const answer = { jti, expiresAt: revoked.expiresAt.getTime() };
    changed({ resource: 'jwt', id: jti, before: revoked.isNew ? undefined : answer, after: answer });
    return answer;
  },
});

function refuseRegistered(payload: Record<string, unknown>): void {
  const set = registeredClaims.filter((claim) => Object.hasOwn(payload, claim));
  if (set.length === 0) return;
  throw new ApiError('registered_claim', {
    message: `The payload sets ${set.join(', ')}; ${registeredClaims.join(', ')} are set by the service.`,
    details: set.map((claim) => ({ path: `/payload/${claim}`, message: 'is set by the service' })),
  });
}

/**
 * The workspaces that a JWT is limited to: those asked for, else those of the signer's token; undefined: none. 403 unless
 * the token may use each that was asked for, and one of its own is left.
 */
async function signableWorkspaces(sql: Query, caller: Caller, wanted?: string[]): Promise<string[] | undefined> {
  const ids = wanted ?? caller.workspaceIds;
  if (ids === undefined) return undefined;
  const rows = await sql<{ id: string }[]>`
    select id from workspaces
    where id = any(${ids.filter((id) => mayUse(caller, id))}) and team_id = ${caller.teamId} and deleted_at is null
    order by id limit ${MAX_WORKSPACES + 1}`;
  if (rows.length < (wanted?.length ?? 1)) throw new ApiError('workspace_forbidden');
  if (rows.length > MAX_WORKSPACES)
    throw invalidField(
      '/workspaceIds',
      `must say for which of your token's workspaces the JWT is, at most ${MAX_WORKSPACES}`,
    );
  return rows.map((row) => row.id);
}

function present(checked: CheckedJwt): Static<typeof response> {
  const { status, claims } = checked;
  if (status === 'INVALID') return { status, ...(checked.reason && { reason: checked.reason }) };
  const { exp, aud, [WORKSPACES_CLAIM]: workspaceIds } = claims;
  const audience = typeof aud === 'string' && { aud };
  return { status, payload: givenPayload(claims), exp, ...audience, ...(workspaceIds && { workspaceIds }) };
}

type Revocable = { jti: string; expiresAt?: Date; isOver?: boolean };

/**
 * The JWT to revoke. A jti does not tell a JWT's workspaces, so it takes a token of the whole team; the JWT itself also one
 * that may use all of its workspaces.
 */
async function revocable(
  sql: Query,
  caller: Caller,
  body: { jti?: string; jwt?: string },
  now: Date,
): Promise<Revocable> {
  if (body.jwt === undefined) {
    requireWholeTeam(caller);
    return { jti: body.jti! };
  }
  const { teamId } = caller;
  const { claims, ...checked } = await checkJwt(sql, { teamId, workspaceIds: undefined }, body.jwt, now);
  if (!claims) throw new ApiError('jwt_not_of_team');
  const limits = claims[WORKSPACES_CLAIM];
  if (!limits) requireWholeTeam(caller);
  else if (!limits.every((id) => caller.workspaceIds?.includes(id) ?? true)) throw new ApiError('workspace_forbidden');
  // A retired key's JWTs are INVALID for good, and so need no revocation of their own.
  const isOver = checked.status === 'EXPIRED' || ('reason' in checked && checked.reason === 'KEY_RETIRED');
  return { jti: claims.jti, expiresAt: new Date(claims.exp * 1000), isOver };
}

/**
 * Revokes a JWT of a team, in a transaction, until it expires; where that is not known, until no JWT can be in force that
 * the team has signed so far. A JWT that is revoked already stays so. Gives until when, and whether it is new.
 */
async function storeRevokedJwt(
  sql: Query,
  teamId: string,
  jti: string,
  expiresAt: Date | undefined,
): Promise<{ expiresAt: Date; isNew: boolean }> {
  await readJwtSettings(sql, teamId, { lock: true });
  const [known] = await sql<{ expiresAt: Date }[]>`
    select expires_at from revoked_jwts where team_id = ${teamId} and jti = ${jti} and expires_at > now()`;
  if (known) return { ...known, isNew: false };
  const [row] = await sql<{ expiresAt: Date }[]>`
    insert into revoked_jwts as known (team_id, jti, expires_at)
    select ${teamId}, ${jti}, coalesce(${expiresAt ?? null}::timestamptz, ${longestInForce(sql, teamId)})
    where (select count(*) from (
             select from revoked_jwts where team_id = ${teamId} and expires_at > now() limit ${MAX_REVOCATIONS}) as live)
          < ${MAX_REVOCATIONS}
    on conflict (team_id, jti) do update set expires_at = excluded.expires_at, created_at = now()
    returning expires_at`;
  if (!row) throw new ApiError('revocation_limit_reached');
  return { ...row, isNew: true };
}

// When the last JWT ends that the team has signed so far. 300 s more: see published_until in sql/postgres.
function longestInForce(sql: Query, teamId: string) {
  return sql`
    coalesce((select max(case when retired_at is null then now() + make_interval(secs => longest_seconds + 300)
                              when retired_at < 'infinity' then published_until end)
              from signing_keys where team_id = ${teamId} and published_until > now()),
             now() + interval '300 seconds')`;
}
