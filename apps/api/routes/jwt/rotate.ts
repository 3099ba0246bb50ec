import { object } from '../../../../shared/contract/schema-kinds.ts';
import { requireWholeTeam } from '../../resources/access.ts';
import { route } from '../../http/route.ts';
import { kid } from '../../resources/signing-keys.ts';

export default route({
  method: 'post',
  path: '/api/v1/jwt/rotate',
  tag: 'JWT',
  summary: 'Sign with a new key from now on; JWTs of earlier keys keep verifying',
  permission: 'token:write',
  writes: true,
  bodyOptional: true,
  body: object({}),
  response: object({ kid }),
  errors: ['workspace_forbidden'],

  async handle({ sql, caller, audit, signingKeys }) {
    requireWholeTeam(caller);
    const { kid: made, replaces } = await signingKeys.rotate(sql, caller.teamId);
    audit('signing_key', made, replaces === undefined ? undefined : { kid: replaces }, { kid: made });
    return { kid: made };
  },
});
