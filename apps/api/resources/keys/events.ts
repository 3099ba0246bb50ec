import type { WebhookEvent } from '../../../../shared/contract/webhook-events.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { tellWebhooks } from '../../../../shared/stores/tell-webhooks.ts';
import type { presentKey } from './keys.ts';

type TellKeys = {
  type: 'key.created' | 'key.rotated' | 'key.deleted';
  teamId: string;
  keys: { workspaceId: string; key: ReturnType<typeof presentKey> }[];
  atMs: number;
};

/** Tells webhooks of a step in the life of keys, in its transaction. An import may bring a deleted key back. */
export async function tellKeys(sql: Query, { type, teamId, keys, atMs }: TellKeys): Promise<void> {
  const events = keys.map(({ workspaceId, key }): WebhookEvent => ({
    type,
    teamId,
    workspaceId,
    subjectId: key.id,
    cause: `${key.updatedAt} ${key.maskedKey}`,
    atMs,
    data: {
      apiKeyId: key.id,
      name: key.name,
      maskedKey: key.maskedKey,
      customerId: key.customerId,
      externalMeterId: key.externalMeterId,
      expiresAt: key.expiresAt,
    },
  }));
  await tellWebhooks(sql, events);
}
