import { Type } from 'typebox';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { audience, jwt, verifyJwt } from '../../resources/jwts.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'post',
  path: '/api/v1/jwt/verify',
  tag: 'JWT',
  summary: 'Verify a JWT of your team',
  permission: 'jwt:verify',
  body: object({ jwt }),
  response: object({
    status: Type.Enum(['VALID', 'EXPIRED', 'INVALID']),
    payload: Type.Optional(
      Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        maxProperties: 1024,
        'x-limits': { maxBytes: 4096, maxDepth: 10 },
        description: 'the payload as it was signed; present if the signature is good',
        examples: [{ role: 'admin' }],
      }),
    ),
    exp: Type.Optional(Type.Integer({ description: 'when it expires, in Unix seconds', examples: [1_795_162_200] })),
    aud: Type.Optional(audience),
  }),

  async handle({ sql, body, caller, signingKeys }) {
    return verifyJwt(sql, signingKeys, caller.teamId, body.jwt, new Date());
  },
});
