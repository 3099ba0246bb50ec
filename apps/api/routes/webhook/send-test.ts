import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { tellOneWebhook } from '../../../../shared/stores/tell-webhooks.ts';
import { route } from '../../http/route.ts';
import {
  deliveryRows,
  presentDelivery,
  requireDeliverable,
  requireWebhook,
  webhookDelivery,
} from '../../resources/webhooks.ts';

export default route({
  method: 'post',
  path: '/api/v1/webhook/{wid}/test',
  tag: 'Webhooks',
  operationId: 'testWebhook',
  summary: 'Send an event of type webhook.test to a webhook',
  description: 'It is delivered like any other: the deliveries tell what the receiver answered.',
  permission: 'webhook:write',
  status: 201,
  writes: true,
  params: object({ wid: id('webhook') }),
  response: object({ delivery: webhookDelivery }),
  errors: ['webhook_not_found', 'webhook_disabled', 'webhook_waiting_limit_reached'],

  async handle({ sql, params, caller, audit, clock }) {
    const row = await requireWebhook(sql, caller, params.wid, { lock: true });
    await requireDeliverable(sql, caller.teamId, row);
    const { teamId } = caller;
    const deliveryId = await tellOneWebhook(sql, {
      teamId,
      webhookId: row.id,
      workspaceId: row.workspaceId,
      atMs: clock.now(),
    });
    audit('webhook', row.id, undefined, { tested: deliveryId });
    const [delivery] = await deliveryRows(sql, row.id, { id: deliveryId });
    return { delivery: presentDelivery(delivery!) };
  },
});
