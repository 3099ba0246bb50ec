import { Type } from 'typebox';
import { object } from '../../../shared/schemas.ts';
import { requireWholeTeam } from '../auth.ts';
import { route } from '../route.ts';

export default route({
  method: 'post',
  path: '/api/v1/jwt/rotate',
  tag: 'JWT',
  summary: 'Sign with a new key from now on; what earlier keys signed keeps verifying',
  permission: 'token:write',
  writes: true,
  bodyOptional: true,
  body: object({}),
  response: object({ kid: Type.String({ description: 'id of the new signing key' }) }),

  async handle({ sql, caller, signingKeys }) {
    requireWholeTeam(caller);
    const { kid } = await signingKeys.rotate(sql, caller.teamId);
    return { kid };
  },
});
