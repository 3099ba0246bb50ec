import { Type } from 'typebox';
import { object } from '../../../shared/schemas.ts';
import { route } from '../route.ts';

export default route({
  method: 'post',
  path: '/api/v1/jwt/rotate',
  tag: 'JWT',
  summary: 'Sign with a new key from now on; what earlier keys signed keeps verifying',
  permission: 'token:write',
  writes: true,
  response: object({ kid: Type.String({ description: 'id of the new signing key' }) }),

  async handle({ sql, caller, signingKeys }) {
    const { kid } = await signingKeys.rotate(sql, caller.teamId);
    return { kid };
  },
});
