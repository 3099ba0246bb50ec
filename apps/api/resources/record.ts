import type { WebhookData, WebhookEvent } from '../../../shared/contract/webhook-events.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { notifyWebhooks } from '../../../shared/stores/notify-webhooks.ts';
import type { Change, StoredChange } from '../sync/change.ts';
import { recordChanges } from '../sync/sync.ts';
import { recordAudit, type AuditLine, type AuditOrigin, type AuditResource } from './audit.ts';

/** A change of a resource, said once. From it follow the line of the audit log, its copies in Redis, and what webhooks hear. */
export type Recorded = AuditLine & {
  /** The shards of its copies in Redis; left out: every shard, for a resource that has copies. */
  shards?: readonly number[];
  /** A step in the life of a key of this workspace, for webhooks. */
  step?: { type: 'key.created' | 'key.rotated' | 'key.deleted'; workspaceId: string } | undefined;
};

/** Says that a resource was changed. Without `before` it was created; without `after` it is gone; without either, Redis alone has to follow. */
export type SayChanged = (resource: AuditResource, id: string, change: Omit<Recorded, 'resource' | 'id'>) => void;

const copies: Partial<Record<AuditResource, Change['kind']>> = {
  access_token: 'token',
  adjustment: 'adjustment',
  api_key: 'key',
  billing: 'billing',
  scope: 'scope',
  workspace: 'workspace',
};

/** What webhooks hear of a key, as the API answers it. */
type ToldKey = Omit<WebhookData['key.created'], 'apiKeyId'> & { updatedAt: string };

/** Stores in the transaction of some changes what follows from them; gives those that must come into force in Redis. */
export async function storeRecorded(sql: Query, origin: AuditOrigin, recorded: Recorded[]): Promise<StoredChange[]> {
  await notifyWebhooks(
    sql,
    recorded.flatMap((one) => eventOf(origin.teamId, one) ?? []),
  );
  const changes = recorded.flatMap(copiesOf);
  const ids = await recordChanges(sql, changes);
  await recordAudit(sql, origin, recorded);
  return changes.map((change, i) => ({ ...change, id: ids[i]! }));
}

function copiesOf({ resource, id, shards }: Recorded): Change[] {
  const kind = copies[resource];
  return kind === undefined ? [] : (shards ?? [null]).map((shard) => ({ kind, entityId: id, shard }));
}

function eventOf(teamId: string, { id, step, after }: Recorded): WebhookEvent | undefined {
  if (!step) return undefined;
  const { updatedAt, name, maskedKey, customerId, externalMeterId, expiresAt } = after as ToldKey;
  const data = { apiKeyId: id, name, maskedKey, customerId, externalMeterId, expiresAt };
  return { ...step, teamId, subjectId: id, cause: `${updatedAt} ${maskedKey}`, atMs: Date.parse(updatedAt), data };
}
