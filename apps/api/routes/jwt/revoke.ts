import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { instant, object } from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import { checkJwt, jti, jwt, WORKSPACES_CLAIM } from '../../resources/jwts/jwts.ts';
import { revokeJwt } from '../../resources/jwts/revoked-jwts.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'post',
  path: '/api/v1/jwt/revoke',
  tag: 'JWT',
  operationId: 'revokeJwt',
  summary: 'Revoke a JWT of your team by its `jti`, or by the JWT itself: INVALID at the next verification',
  description: 'The service refuses the JWT from then on. Whoever verifies by the key set alone learns nothing of it.',
  permission: 'jwt:revoke',
  writes: true,
  body: object({ jti: Type.Optional(jti), jwt: Type.Optional(jwt) }),
  response: object({ jti, expiresAt: instant('until when the revocation is kept: by then the JWT has expired') }),
  errors: ['workspace_forbidden', 'jwt_not_of_team', 'revocation_limit_reached'],

  async handle({ sql, body, caller, audit, clock }) {
    if ((body.jti === undefined) === (body.jwt === undefined)) throw needsOne();
    const { jti, expiresAt, isOver } = await revocable(sql, caller, body, new Date(clock.now()));
    if (isOver) return { jti, expiresAt: expiresAt!.getTime() };
    const revoked = await revokeJwt(sql, caller.teamId, jti, expiresAt);
    const answer = { jti, expiresAt: revoked.expiresAt.getTime() };
    audit('jwt', jti, revoked.isNew ? undefined : answer, answer);
    return answer;
  },
});

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

function needsOne(): ApiError {
  const message = 'The request is not valid: give either jti or jwt.';
  return new ApiError('invalid_request', { message, details: [{ path: '/jti', message: 'must be given, or jwt' }] });
}
