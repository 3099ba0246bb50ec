import { object } from '../../../../shared/contract/schema-kinds.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { presentWebhook, webhook, webhookColumns, withinSight, type WebhookRow } from '../../resources/webhooks.ts';

export default route({
  method: 'get',
  path: '/api/v1/webhook',
  tag: 'Webhooks',
  operationId: 'listWebhooks',
  summary: 'List the webhooks, oldest first',
  description: 'A token that is limited to workspaces sees those of its workspaces.',
  permission: 'webhook:read',
  query: object(pageParameters),
  response: object({ webhooks: pageItems(webhook), nextCursor }),
  errors: [],

  async handle({ sql, query, caller }) {
    const read = (after: string, take: number) => sql<WebhookRow[]>`
      select ${webhookColumns(sql)} from webhooks
      where ${withinSight(sql, caller)} and id > ${after} order by id limit ${take}`;
    const { items, next } = await readPage(query, `webhooks of ${caller.teamId}`, read, presentWebhook);
    return { webhooks: items, ...next };
  },
});
