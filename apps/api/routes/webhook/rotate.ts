import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
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
  description:
    'For 24 hours the earlier secret signs too, so a receiver may change over in between. Until then another rotation is refused: a receiver that still has the earlier secret would lose it.',
  permission: 'webhook:write',
  writes: true,
  params: object({ wid: id('webhook') }),
  bodyOptional: true,
  body: object({
    replaceLatest: Type.Optional(
      Type.Boolean({
        description:
          'within 24 hours of a rotation: replaces the secret that it made, at once; the one before still signs until its 24 hours are over',
        examples: [true],
      }),
    ),
  }),
  response: object({ webhook: newWebhook }),
  errors: ['webhook_not_found', 'webhook_rotated'],

  async handle({ sql, params, body, caller, audit, webhooks: { sealer } }) {
    const before = await requireWebhook(sql, caller, params.wid, { lock: true });
    const place = webhookSecretPlace(before.id);
    const [{ sealed, previous }] = await sql<[Secrets]>`
      select secret_sealed as sealed, case when previous_until > now() then previous_sealed end as previous from webhooks where id = ${before.id}`;
    if (previous && !body.replaceLatest) throw new ApiError('webhook_rotated');
    const secret = newWebhookSecret();
    // Sealed again: the earlier one may be under an earlier master key.
    const earlier = sealer.seal(sealer.unseal(previous ?? sealed, place), place);
    const [row] = await sql<[WebhookRow]>`
      update webhooks
      set secret_sealed = ${sealer.seal(secret, place)}, previous_sealed = ${earlier},
          previous_until = case when previous_until > now() then previous_until else now() + interval '24 hours' end,
          sealed_under = ${sealer.keyName}, updated_at = now()
      where id = ${before.id} returning ${webhookColumns(sql)}`;
    audit('webhook', row.id, presentWebhook(before), presentWebhook(row));
    return { webhook: { ...presentWebhook(row), secret } };
  },
});

type Secrets = { sealed: Buffer; previous: Buffer | null };
