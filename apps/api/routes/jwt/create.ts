import { Type } from 'typebox';
import type { Caller } from '../../../../shared/contract/caller.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { jsonObject, object } from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { mayUse } from '../../resources/access/access.ts';
import { issuerOf } from '../../resources/jwts/settings.ts';
import { audience, jwt, MAX_WORKSPACES, registeredClaims, signJwt, workspaceIds } from '../../resources/jwts/jwts.ts';
import { route } from '../../http/route.ts';

const DEFAULT_SECONDS = 3600;

export default route({
  method: 'post',
  path: '/api/v1/jwt',
  tag: 'JWT',
  operationId: 'createJwt',
  summary: 'Sign a JWT, for the workspaces of your access token',
  description:
    'Signs a payload of your own with the key of your team. The claims of the service (`iss`, `iat`, `exp`, `jti`) are set by it.',
  permission: 'jwt:sign',
  status: 201,
  // The team's first JWT makes its signing key.
  writes: true,
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

  async handle({ sql, body, caller, audit, signingKeys, publicUrl, clock }) {
    const { payload, aud, exp = DEFAULT_SECONDS } = body;
    refuseRegistered(payload);
    const workspaceIds = await signableWorkspaces(sql, caller, body.workspaceIds);
    const key = await signingKeys.current(sql, caller.teamId, exp);
    if ('isNew' in key) audit('signing_key', key.kid, undefined, { kid: key.kid });
    const issuer = issuerOf(caller.teamId, key.issuer, publicUrl);
    const nowSeconds = Math.floor(clock.now() / 1000);
    return {
      jwt: await signJwt(key, { payload, audience: aud, issuer, workspaceIds, lifetimeSeconds: exp, nowSeconds }),
    };
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
  if (rows.length <= MAX_WORKSPACES) return rows.map((row) => row.id);
  const details = [{ path: '/workspaceIds', message: `must name at most ${MAX_WORKSPACES} workspaces of your token` }];
  const message = `The request is not valid: your token has more than ${MAX_WORKSPACES} workspaces; say in workspaceIds for which the JWT is.`;
  throw new ApiError('invalid_request', { message, details });
}
