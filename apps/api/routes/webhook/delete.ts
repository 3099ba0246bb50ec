import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { deleteWebhooks, presentWebhook, requireWebhook, webhook } from '../../resources/webhooks.ts';

export default route({
  method: 'delete',
  path: '/api/v1/webhook/{wid}',
  tag: 'Webhooks',
  operationId: 'deleteWebhook',
  summary: 'Delete a webhook with its secret and its deliveries, also those that wait',
  description: 'A try that is under way may still arrive.',
  permission: 'webhook:write',
  writes: true,
  params: object({ wid: id('webhook') }),
  response: object({ webhook }),
  errors: ['webhook_not_found'],

  async handle({ sql, params, caller, audit }) {
    const before = await requireWebhook(sql, caller, params.wid, { lock: true });
    await deleteWebhooks(sql, audit, [before]);
    return { webhook: presentWebhook(before) };
  },
});
