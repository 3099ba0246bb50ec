import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { jsonObject, object } from '../../../../shared/contract/schema-kinds.ts';
import { issuerOf } from '../../resources/jwt-settings.ts';
import { audience, jwt, registeredClaims, signJwt } from '../../resources/jwts.ts';
import { route } from '../../http/route.ts';

const DEFAULT_SECONDS = 3600;

export default route({
  method: 'post',
  path: '/api/v1/jwt',
  tag: 'JWT',
  summary: 'Sign a JWT',
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
  }),
  response: object({ jwt }),
  errors: ['registered_claim', 'issuer_url_unknown'],

  async handle({ sql, body, caller, audit, signingKeys, publicUrl }) {
    const { payload, aud, exp = DEFAULT_SECONDS } = body;
    refuseRegistered(payload);
    const key = await signingKeys.current(sql, caller.teamId, exp);
    if ('isNew' in key) audit('signing_key', key.kid, undefined, { kid: key.kid });
    const issuer = issuerOf(caller.teamId, key.issuer, publicUrl);
    const nowSeconds = Math.floor(Date.now() / 1000);
    return {
      jwt: await signJwt(key, {
        payload,
        audience: aud,
        issuer,
        workspaceIds: undefined,
        lifetimeSeconds: exp,
        nowSeconds,
      }),
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
