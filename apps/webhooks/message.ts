import { Webhook } from 'standardwebhooks';
import type { Sealer } from '../../shared/values/seal.ts';
import { webhookSecretPlace } from '../../shared/values/webhook-secret.ts';
import type { Claimed } from './claim.ts';

type Message = { headers: Record<string, string>; body: string };

/** The request of a delivery: the same body under the same id at every try, signed for this moment. */
export function messageOf(claimed: Claimed, sealer: Sealer, now: Date): Message {
  const { eventId, type, at, sequence, workspaceId, data } = claimed;
  const start = { type, timestamp: new Date(at).toISOString(), sequence, ...(workspaceId !== null && { workspaceId }) };
  // As it was stored: a text that is read and written again may change.
  const body = `${JSON.stringify(start).slice(0, -1)},"data":${data}}`;
  return {
    headers: {
      'content-type': 'application/json',
      'user-agent': 'keytally-webhooks',
      'webhook-id': eventId,
      'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
      'webhook-signature': secretsOf(claimed, sealer)
        .map((secret) => new Webhook(secret).sign(eventId, now, body))
        .join(' '),
    },
    body,
  };
}

/** The secret, and for a day after a rotation the one before it. */
function secretsOf({ webhookId, secretSealed, previousSealed }: Claimed, sealer: Sealer): string[] {
  return [secretSealed, previousSealed]
    .filter((sealed) => sealed !== null)
    .map((sealed) => sealer.unseal(sealed, webhookSecretPlace(webhookId)));
}
