import { Type } from 'typebox';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import { route } from '../../http/route.ts';
import { kid } from '../../resources/jwts/signing-keys.ts';

export default route({
  method: 'post',
  path: '/api/v1/jwt/rotate',
  tag: 'JWT',
  operationId: 'rotateSigningKey',
  summary: 'Sign with the next key from now on; JWTs of earlier keys keep verifying, unless you retire them',
  description:
    'Makes a new signing key. JWTs of earlier keys stay valid until they end; with `retireNow` they are refused at once.',
  permission: 'token:write',
  writes: true,
  bodyOptional: true,
  body: object({
    retireNow: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'ends all earlier keys at once: they leave the key sets, and JWTs that they signed are INVALID',
      }),
    ),
  }),
  response: object({ kid }),
  errors: ['workspace_forbidden', 'signing_key_limit_reached'],

  async handle({ sql, body, caller, audit, signingKeys }) {
    requireWholeTeam(caller);
    const { retireNow = false } = body;
    const { kid: made, replaces, retired } = await signingKeys.rotate(sql, caller.teamId, { retireNow });
    for (const one of retired) audit('signing_key', one, { kid: one }, undefined);
    audit('signing_key', made, replaces === undefined ? undefined : { kid: replaces }, { kid: made });
    return { kid: made };
  },
});
