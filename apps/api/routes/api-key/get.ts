import { object } from '../../../../shared/contract/schema-kinds.ts';
import { requireWorkspace } from '../../resources/access/access.ts';
import { apiKey, keyParams, readKey } from '../../resources/keys/keys.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'get',
  path: '/api/v1/workspace/{id}/api-key/{akid}',
  tag: 'API keys',
  operationId: 'getKey',
  summary: 'Get an API key, without its secret',
  description: 'Gives the settings of a key. No answer contains its secret again.',
  permission: 'key:read',
  params: keyParams,
  response: object({ apiKey }),
  errors: ['workspace_forbidden', 'key_not_found'],

  async handle({ sql, params, caller }) {
    await requireWorkspace(sql, caller, params.id);
    return { apiKey: await readKey(sql, params) };
  },
});
