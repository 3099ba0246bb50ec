import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { deliveryRows, presentDelivery, requireWebhook, webhookDelivery } from '../../resources/webhooks.ts';

export default route({
  method: 'get',
  path: '/api/v1/webhook/{wid}/deliveries',
  tag: 'Webhooks',
  operationId: 'listWebhookDeliveries',
  summary: 'List what was told to a webhook in the last 30 days, newest first, with each try',
  description: 'Of each try it has the status, the time and the first 1 KB of the answer, or 200 bytes of one inside.',
  permission: 'webhook:read',
  params: object({ wid: id('webhook') }),
  query: object(pageParameters),
  response: object({ deliveries: pageItems(webhookDelivery), nextCursor }),
  errors: ['webhook_not_found'],

  async handle({ sql, params, query, caller }) {
    const { id: webhookId } = await requireWebhook(sql, caller, params.wid);
    const read = (before: string, take: number) => deliveryRows(sql, webhookId, { before, take });
    const { items, next } = await readPage(query, `deliveries of ${webhookId}`, read, presentDelivery);
    return { deliveries: items, ...next };
  },
});
