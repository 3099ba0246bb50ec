import { Type } from 'typebox';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { graceSeconds, rotateKey } from './rotation.ts';
import { apiKeyWithText, keyParams } from '../../resources/keys/keys.ts';
import { route } from '../../http/route.ts';

export default route({
  method: 'post',
  path: '/api/v1/workspace/{id}/api-key/{akid}/rotate',
  tag: 'API keys',
  operationId: 'rotateKey',
  summary: 'Give an API key a new secret; only this answer contains it',
  description: 'The earlier secret keeps verifying for `graceSeconds`. The key keeps its id, settings and usage.',
  permission: 'key:write',
  writes: true,
  params: keyParams,
  bodyOptional: true,
  body: object({ graceSeconds: Type.Optional(graceSeconds) }),
  response: object({ apiKey: apiKeyWithText }),
  errors: ['workspace_forbidden', 'key_not_found', 'key_deleted'],

  async handle(call) {
    return { apiKey: await rotateKey(call, call.params, call.body) };
  },
});
