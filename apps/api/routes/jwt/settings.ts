import { object } from '../../../../shared/contract/schema-kinds.ts';
import { jwtSettings, presentJwtSettings, readJwtSettings } from '../../resources/jwts/settings.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/jwt/settings',
  tag: 'JWT',
  operationId: 'getJwtSettings',
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
