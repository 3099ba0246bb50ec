import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import { presentWebhook, requireWebhook, webhook } from '../../resources/webhooks.ts';

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
    // The consumer removes its deliveries, which may be many.
    await sql`
      update webhooks set deleted_at = now(), enabled = false, secret_sealed = null, previous_sealed = null, previous_until = null
      where id = ${before.id}`;
    const gone = presentWebhook(before);
    audit('webhook', before.id, gone, undefined);
    return { webhook: gone };
  },
});
