import { ApiError } from '../../../../shared/contract/errors.ts';
import { object } from '../../../../shared/contract/schema-kinds.ts';
import { notifyOneWebhook, WEBHOOKS_CHANNEL } from '../../../../shared/stores/notify-webhooks.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import {
  deliveryRows,
  presentDelivery,
  webhookDelivery,
  requireDeliverable,
  webhooks,
  withinSight,
} from '../../resources/webhooks.ts';

export const listWebhookDeliveries = listRoute('/api/v1/webhook/{wid}/deliveries', 'deliveries', webhookDelivery, {
  summary: 'List what was told to a webhook in the last 30 days, newest first, with each try',
  description: 'Of each try it has the status, the time and the first 1 KB of the answer, or 200 bytes of one inside.',
  permission: 'webhook:read',

  async open({ sql, params, caller }) {
    const { id } = await webhooks.require(sql, params.wid, withinSight(sql, caller));
    return { read: (before, take) => deliveryRows(sql, id, { before, take }), present: presentDelivery };
  },
});

export const testWebhook = route('post', '/api/v1/webhook/{wid}/test', {
  summary: 'Send an event of type webhook.test to a webhook',
  description: 'It is delivered like any other: the deliveries tell what the receiver answered.',
  permission: 'webhook:write',
  status: 201,
  response: object({ delivery: webhookDelivery }),
  errors: ['webhook_disabled', 'webhook_waiting_limit_reached'],

  async handle({ sql, params, caller, changed, clock }) {
    const row = await webhooks.require(sql, params.wid, withinSight(sql, caller), { lock: true });
    await requireDeliverable(sql, caller.teamId, row);
    const { teamId } = caller;
    const deliveryId = await notifyOneWebhook(sql, {
      teamId,
      webhookId: row.id,
      workspaceId: row.workspaceId,
      atMs: clock.now(),
    });
    changed('webhook', row.id, { after: { tested: deliveryId } });
    const [delivery] = await deliveryRows(sql, row.id, { id: deliveryId });
    return { delivery: presentDelivery(delivery!) };
  },
});

export const redeliverWebhook = route('post', '/api/v1/webhook/{wid}/delivery/{did}/redeliver', {
  summary: 'Deliver an event again, now, under the same webhook-id',
  description: 'Also one that was delivered, or that failed for good; one that waits is tried now.',
  permission: 'webhook:write',
  response: object({ delivery: webhookDelivery }),
  errors: ['webhook_disabled', 'webhook_waiting_limit_reached'],

  async handle({ sql, params, caller, changed }) {
    const row = await webhooks.require(sql, params.wid, withinSight(sql, caller), { lock: true });
    const [before] = isId(params.did) ? await deliveryRows(sql, row.id, { id: params.did }) : [];
    if (!before) throw new ApiError('webhook_delivery_not_found');
    await requireDeliverable(sql, caller.teamId, row);
    // One that is being tried stays as it is: its try is the one that was asked for.
    await sql`
      update webhook_deliveries set state = 'WAITING', attempts = 0, next_at = now(), ended_at = null
      where id = ${before.id} and (claimed_until is null or claimed_until < now())`;
    await sql`select pg_notify(${WEBHOOKS_CHANNEL}, '')`;
    changed('webhook', row.id, { after: { redelivered: before.id } });
    const [delivery] = await deliveryRows(sql, row.id, { id: before.id });
    return { delivery: presentDelivery(delivery!) };
  },
});
