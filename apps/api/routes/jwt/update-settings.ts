import { object } from '../../../../shared/contract/schema-kinds.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import {
  jwtSettings,
  jwtSettingsChange,
  lockJwtSettings,
  presentJwtSettings,
  storeJwtSettings,
} from '../../resources/jwts/settings.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'patch',
  path: '/api/v1/jwt/settings',
  tag: 'JWT',
  operationId: 'updateJwtSettings',
  summary: "Change what your team's JWTs name as issuer, and whether its keys are in the key set of all teams",
  description:
    'Sets the issuer of JWTs that are signed from now on, and whether the keys are published among those of all teams.',
  permission: 'token:write',
  writes: true,
  body: jwtSettingsChange,
  response: object({ jwtSettings }),
  errors: ['workspace_forbidden', 'issuer_url_unknown'],

  async handle({ sql, body, caller, audit, publicUrl }) {
    requireWholeTeam(caller);
    const before = await lockJwtSettings(sql, caller.teamId);
    const after = { ...before, ...body };
    const jwtSettings = presentJwtSettings(caller.teamId, after, publicUrl);
    await storeJwtSettings(sql, caller.teamId, after);
    audit('jwt_settings', caller.teamId, before, after);
    return { jwtSettings };
  },
});
