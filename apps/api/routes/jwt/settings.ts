import { object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import {
  jwtSettings,
  presentJwtSettings,
  readJwtSettings,
  jwtSettingsChange,
  storeJwtSettings,
} from '../../resources/jwts/settings.ts';

export const getJwtSettings = route('get', '/api/v1/jwt/settings', {
  summary: "Get what your team's JWTs name as issuer, and where its keys are published",
  description: 'Gives the issuer of JWTs and the addresses of their key sets.',
  permission: 'jwt:verify',
  response: object({ jwtSettings }),
  errors: ['issuer_url_unknown'],

  async handle({ sql, caller, publicUrl }) {
    const settings = await readJwtSettings(sql, caller.teamId);
    return { jwtSettings: presentJwtSettings(caller.teamId, settings, publicUrl) };
  },
});

export const updateJwtSettings = route('patch', '/api/v1/jwt/settings', {
  summary: "Change what your team's JWTs name as issuer, and whether its keys are in the key set of all teams",
  description:
    'Sets the issuer of JWTs that are signed from now on, and whether the keys are published among those of all teams.',
  permission: 'token:write',
  body: jwtSettingsChange,
  response: object({ jwtSettings }),
  errors: ['workspace_forbidden', 'issuer_url_unknown'],

  async handle({ sql, body, caller, changed, publicUrl }) {
    requireWholeTeam(caller);
    const before = await readJwtSettings(sql, caller.teamId, { lock: true });
    const after = { ...before, ...body };
    const jwtSettings = presentJwtSettings(caller.teamId, after, publicUrl);
    await storeJwtSettings(sql, caller.teamId, after);
    changed('jwt_settings', caller.teamId, { before, after });
    return { jwtSettings };
  },
});
