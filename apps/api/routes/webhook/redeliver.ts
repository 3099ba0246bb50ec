import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { WEBHOOKS_CHANNEL } from '../../../../shared/stores/tell-webhooks.ts';
import { isId } from '../../../../shared/values/ids.ts';
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
  path: '/api/v1/webhook/{wid}/delivery/{did}/redeliver',
  tag: 'Webhooks',
  operationId: 'redeliverWebhook',
  summary: 'Deliver an event again, now, under the same webhook-id',
  description: 'Also one that was delivered, or that failed for good; one that waits is tried now.',
  permission: 'webhook:write',
  writes: true,
  params: object({ wid: id('webhook'), did: id('webhook delivery') }),
  response: object({ delivery: webhookDelivery }),
  errors: ['webhook_not_found', 'webhook_delivery_not_found', 'webhook_disabled', 'webhook_waiting_limit_reached'],

  async handle({ sql, params, caller, audit }) {
    const row = await requireWebhook(sql, caller, params.wid, { lock: true });
    const [before] = isId(params.did) ? await deliveryRows(sql, row.id, { id: params.did }) : [];
    if (!before) throw new ApiError('webhook_delivery_not_found');
    await requireDeliverable(sql, caller.teamId, row);
    // One that is being tried stays as it is: its try is the one that was asked for.
    await sql`
      update webhook_deliveries set state = 'WAITING', attempts = 0, next_at = now(), ended_at = null
      where id = ${before.id} and (claimed_until is null or claimed_until < now())`;
    await sql`select pg_notify(${WEBHOOKS_CHANNEL}, '')`;
    audit('webhook', row.id, undefined, { redelivered: before.id });
    const [delivery] = await deliveryRows(sql, row.id, { id: before.id });
    return { delivery: presentDelivery(delivery!) };
  },
});
