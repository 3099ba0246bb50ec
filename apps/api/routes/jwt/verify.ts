import { Type, type Static } from 'typebox';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import {
  audience,
  checkJwt,
  givenPayload,
  invalidReasons,
  jwt,
  WORKSPACES_CLAIM,
  workspaceIds,
  type CheckedJwt,
} from '../../resources/jwts/jwts.ts';
import { route } from '../../http/route.ts';

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
  exp: Type.Optional(Type.Integer({ description: 'when it expires, in Unix seconds', examples: [1_795_162_200] })),
  aud: Type.Optional(audience),
  workspaceIds: Type.Optional({
    ...workspaceIds,
    description: 'the workspaces that it is limited to; absent: it is for the whole team',
  }),
});

export default route({
  method: 'post',
  path: '/api/v1/jwt/verify',
  tag: 'JWT',
  operationId: 'verifyJwt',
  summary: 'Verify a JWT of your team',
  description: 'Checks the signature, the end and the revocation of a JWT. INVALID is an answer, not an error.',
  permission: 'jwt:verify',
  body: object({ jwt }),
  response,

  async handle({ sql, body, caller, clock }) {
    return present(await checkJwt(sql, caller, body.jwt, new Date(clock.now())));
  },
});

function present(checked: CheckedJwt): Static<typeof response> {
  const { status, claims } = checked;
  if (status === 'INVALID') return { status, ...(checked.reason && { reason: checked.reason }) };
  const { exp, aud, [WORKSPACES_CLAIM]: workspaceIds } = claims;
  return {
    status,
    payload: givenPayload(claims),
    exp,
    ...(typeof aud === 'string' && { aud }),
    ...(workspaceIds && { workspaceIds }),
  };
}
