import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { newWebhookSecret, webhookSecretPlace } from '../../../../shared/values/webhook-secret.ts';
import { route } from '../../http/route.ts';
import {
  newWebhook,
  presentWebhook,
  requireWebhook,
  webhookColumns,
  type WebhookRow,
} from '../../resources/webhooks.ts';

export default route({
  method: 'post',
  path: '/api/v1/webhook/{wid}/rotate',
  tag: 'Webhooks',
  operationId: 'rotateWebhookSecret',
  summary: 'Give a webhook a new secret; only this answer contains it',
  description: 'For 24 hours the earlier secret signs too, so a receiver may change over in between.',
  permission: 'webhook:write',
  writes: true,
  params: object({ wid: id('webhook') }),
  response: object({ webhook: newWebhook }),
  errors: ['webhook_not_found'],

  async handle({ sql, params, caller, audit, webhooks: { sealer } }) {
    const before = await requireWebhook(sql, caller, params.wid, { lock: true });
    const place = webhookSecretPlace(before.id);
    const [{ sealed }] = await sql<
      [{ sealed: Buffer }]
    >`select secret_sealed as sealed from webhooks where id = ${before.id}`;
    const secret = newWebhookSecret();
    // Sealed again: the earlier one may be under an earlier master key.
    const [row] = await sql<[WebhookRow]>`
      update webhooks
      set secret_sealed = ${sealer.seal(secret, place)}, previous_sealed = ${sealer.seal(sealer.unseal(sealed, place), place)},
          previous_until = now() + interval '24 hours', sealed_under = ${sealer.keyName}, updated_at = now()
      where id = ${before.id} returning ${webhookColumns(sql)}`;
    audit('webhook', row.id, presentWebhook(before), presentWebhook(row));
    return { webhook: { ...presentWebhook(row), secret } };
  },
});
