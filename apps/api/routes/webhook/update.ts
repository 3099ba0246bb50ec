import { Type } from 'typebox';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { route } from '../../http/route.ts';
import {
  presentWebhook,
  requireTarget,
  requireWebhook,
  webhook,
  webhookColumns,
  webhookEvents,
  webhookUrl,
  type WebhookRow,
} from '../../resources/webhooks.ts';
import { WEBHOOKS_CHANNEL } from '../../../../shared/stores/tell-webhooks.ts';

export default route({
  method: 'patch',
  path: '/api/v1/webhook/{wid}',
  tag: 'Webhooks',
  operationId: 'updateWebhook',
  summary: 'Enable or disable a webhook, or change its URL or events',
  description:
    'While it is disabled, it is told nothing; what waited is delivered once it is enabled again, if that is within 30 days.',
  permission: 'webhook:write',
  writes: true,
  params: object({ wid: id('webhook') }),
  body: object({
    enabled: Type.Optional(Type.Boolean({ description: 'whether events are delivered', examples: [true] })),
    events: Type.Optional(webhookEvents),
    url: Type.Optional(webhookUrl),
  }),
  response: object({ webhook }),
  errors: ['webhook_not_found'],

  async handle({ sql, params, body, caller, audit, webhooks: { allowedTargets } }) {
    const before = await requireWebhook(sql, caller, params.wid, { lock: true });
    const { enabled = before.enabled, events = before.events, url = before.url } = body;
    if (url !== before.url) requireTarget(url, caller, allowedTargets);
    const disabled = enabled ? null : (before.disabledReason ?? 'REQUESTED');
    // Another place, or another chance: what failed before says nothing about it.
    const begins = url !== before.url || (enabled && !before.enabled);
    const [row] = await sql<[WebhookRow]>`
      update webhooks
      set enabled = ${enabled}, events = ${events}, url = ${url}, disabled_reason = ${disabled},
          disabled_at = case when not ${enabled} then coalesce(disabled_at, now()) end,
          failing_since = case when not ${begins} then failing_since end, is_slow = is_slow and not ${begins}, updated_at = now()
      where id = ${before.id} returning ${webhookColumns(sql)}`;
    if (begins) await sql`select pg_notify(${WEBHOOKS_CHANNEL}, '')`;
    audit('webhook', row.id, presentWebhook(before), presentWebhook(row));
    return { webhook: presentWebhook(row) };
  },
});
