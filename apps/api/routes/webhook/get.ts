import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { presentWebhook, requireWebhook, webhook } from '../../resources/webhooks.ts';

export default route({
  method: 'get',
  path: '/api/v1/webhook/{wid}',
  tag: 'Webhooks',
  operationId: 'getWebhook',
  summary: 'Get a webhook, without its secret',
  description: 'Says since when it fails, and why it was disabled.',
  permission: 'webhook:read',
  params: object({ wid: id('webhook') }),
  response: object({ webhook }),
  errors: ['webhook_not_found'],

  async handle({ sql, params, caller }) {
    return { webhook: presentWebhook(await requireWebhook(sql, caller, params.wid)) };
  },
});
