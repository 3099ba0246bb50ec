import type { WebhookData, WebhookEvent } from '../../../shared/contract/webhook-events.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { notifyWebhooks } from '../../../shared/stores/notify-webhooks.ts';
import type { Change, StoredChange } from '../sync/change.ts';
import { recordChanges } from '../sync/sync.ts';
import { hash } from 'node:crypto';
import type { Caller } from '../../../shared/contract/caller.ts';
import { chunks } from '../../../shared/values/chunks.ts';
import { newId } from '../../../shared/values/ids.ts';
import type { Operation } from '../../../shared/contract/route.ts';
import { hideSecrets } from '../../../shared/values/secrets.ts';

/** A change of a resource, said once. From it follow the line of the audit log, its copies in Redis, and what webhooks hear. */
export type Recorded = AuditLine & {
  /** The shards of its copies in Redis; left out: every shard, for a resource that has copies. */
  shards?: readonly number[];
  /** A step in the life of a key of this workspace, for webhooks. */
  step?: { type: 'key.created' | 'key.rotated' | 'key.deleted'; workspaceId: string } | undefined;
};

/** Says that resources were changed. Without `before` one was created; without `after` it is gone; without either, Redis alone has to follow. */
export type SayChanged = (...changes: Recorded[]) => void;

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

export const auditResources = [
  'access_token',
  'adjustment',
  'api_key',
  'billing',
  'grant',
  'grant_schedule',
  'jwt',
  'jwt_settings',
  'link_token',
  'meter_destination',
  'payment',
  'payment_source',
  'plan',
  'quota',
  'scope',
  'session',
  'signing_key',
  'webhook',
  'workspace',
  'workspace_month',
] as const;
export type AuditResource = (typeof auditResources)[number];

/** A change of one resource. Without `before` it was created; without `after` it is gone. */
export type AuditLine = {
  resource: AuditResource;
  id: string;
  before?: object | undefined;
  after?: object | undefined;
};

/** Where a request came from, safe to store: both are bounded and hold no secret. */
export type AuditClient = { address: string; userAgent: string | null };

/** Who changed something, how and from where. The operator has no token and no client, and uses the command line. */
export type AuditOrigin = {
  teamId: string;
  tokenId: Caller['tokenId'] | null;
  operation: string;
  requestId: string | null;
  client?: AuditClient;
};

/** Attempts of one token at one operation that got the same refusal. */
export type DeniedAttempts = AuditOrigin & { errorCode: number; attempts: number };

// Most bytes of a field in a line; of a longer one it keeps the digest.
const VALUE_BYTES = 2_048;
const ADDRESS_LENGTH = 64;
const USER_AGENT_LENGTH = 256;
// As many as a request can import. A line may have 128 KiB.
const LINES_PER_STATEMENT = 100;

/** How the audit log names an operation. */
export function operationName({ method, path }: Pick<Operation, 'method' | 'path'>): string {
  return `${method.toUpperCase()} ${path}`;
}

/**
 * What the audit log keeps of a client. A trusted proxy may pass on any text as the address, and a client may put any into
 * its user agent: secrets are hidden before anything is cut, which could leave most of one.
 */
export function auditClient(address: string, userAgent: string | undefined): AuditClient {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, '');
  return {
    address: /^[0-9a-z:.%]{1,64}$/i.test(plain) ? hideSecrets(plain).slice(0, ADDRESS_LENGTH) : 'unknown',
    userAgent: userAgent
      ? hideSecrets(userAgent)
          .slice(0, USER_AGENT_LENGTH)
          .replace(/[^\x20-\x7e]/g, '?')
      : null,
  };
}

/** Stores lines in the transaction of their changes: many in one statement, in their order. */
export async function recordAudit(sql: Query, origin: AuditOrigin, lines: AuditLine[]): Promise<void> {
  const { teamId, tokenId, operation, requestId, client } = origin;
  const texts = lines.map(({ before, after, ...line }) => {
    return { ...line, before: JSON.stringify(before), after: JSON.stringify(after) };
  });
  const changed = texts.filter((line) => line.before !== line.after);
  for (const some of chunks(changed, LINES_PER_STATEMENT)) {
    await sql`
      insert into audit_log (id, team_id, token_id, operation, resource, resource_id, before, after, request_id, address, user_agent)
      select id, ${teamId}, ${tokenId}, ${operation}, resource, resource_id, before::json, after::json, ${requestId},
             ${client?.address ?? null}, ${client?.userAgent ?? null}
      from unnest(${some.map(() => newId('audit'))}::text[], ${some.map((line) => line.resource)}::text[],
                  ${some.map((line) => line.id)}::text[], ${some.map((line) => hidden(line.before))}::text[],
                  ${some.map((line) => hidden(line.after))}::text[])
        as line (id, resource, resource_id, before, after)`;
  }
}

/** Stores refused attempts, in a transaction of their team. */
export async function recordDenied(sql: Query, lines: DeniedAttempts[]): Promise<void> {
  for (const { teamId, tokenId, operation, requestId, client, errorCode, attempts } of lines) {
    await sql`
      insert into audit_log (id, team_id, token_id, operation, request_id, address, user_agent, outcome, error_code, attempts)
      values (${newId('audit')}, ${teamId}, ${tokenId}, ${operation}, ${requestId}, ${client?.address ?? null},
              ${client?.userAgent ?? null}, 'denied', ${errorCode}, ${attempts})`;
  }
}

// Names and metadata are a client's own text, and may hold a secret by mistake.
function hidden(json: string | undefined): string | null {
  if (json === undefined) return null;
  const hideIn = (_: string, value: unknown) => (typeof value === 'string' ? hideSecrets(value) : value);
  const state = Object.entries(JSON.parse(json, hideIn) as Record<string, unknown>);
  return JSON.stringify(Object.fromEntries(state.map(([name, value]) => [name, shortened(value)])));
}

// A list of 1,000 addresses would take 66 KB in each line of its workspace. The digest still tells whether it changed, and whether
// a list that somebody has is the one that was set.
function shortened(value: unknown): unknown {
  const text = JSON.stringify(value);
  const bytes = Buffer.byteLength(text);
  if (bytes <= VALUE_BYTES) return value;
  const items = Array.isArray(value) ? { items: value.length } : {};
  return { omittedBytes: bytes, ...items, sha256: hash('sha256', text) };
}
