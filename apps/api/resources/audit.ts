import type { Caller } from '../../../shared/contract/caller.ts';
import { newId } from '../../../shared/values/ids.ts';
import type { Operation } from '../../../shared/contract/route.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { hideSecrets } from '../../../shared/values/secrets.ts';

export const auditResources = [
  'access_token',
  'adjustment',
  'api_key',
  'billing',
  'link_token',
  'scope',
  'signing_key',
  'workspace',
] as const;
export type AuditResource = (typeof auditResources)[number];

/** A change of one resource. Without `before` it was created; without `after` it is gone. */
export type AuditLine = { resource: AuditResource; id: string; before: object | undefined; after: object | undefined };

/** Adds a line to the audit log, in the transaction of the change. If nothing changed, no line is stored. */
export type Audit = (
  resource: AuditResource,
  id: string,
  before: object | undefined,
  after: object | undefined,
) => void;

/** Who changed something, and how. The operator has no token and uses the command line. */
export type AuditOrigin = {
  teamId: string;
  tokenId: Caller['tokenId'] | null;
  operation: string;
  requestId: string | null;
};

/** The origin of a change that a request makes. */
export function originOf(
  { method, path }: Pick<Operation, 'method' | 'path'>,
  { teamId, tokenId }: Caller,
  requestId: string,
): AuditOrigin {
  return { teamId, tokenId, operation: `${method.toUpperCase()} ${path}`, requestId };
}

/** Stores lines in the transaction of their changes. */
export async function recordAudit(sql: Query, origin: AuditOrigin, lines: AuditLine[]): Promise<void> {
  const { teamId, tokenId, operation, requestId } = origin;
  const texts = lines.map((line) => ({ ...line, before: textOf(line.before), after: textOf(line.after) }));
  for (const { resource, id, before, after } of texts.filter((line) => line.before !== line.after)) {
    await sql`
      insert into audit_log (id, team_id, token_id, operation, resource, resource_id, before, after, request_id)
      values (${newId('audit')}, ${teamId}, ${tokenId}, ${operation}, ${resource}, ${id}, ${hidden(before)}::text::json,
              ${hidden(after)}::text::json, ${requestId})`;
  }
}

// Names and metadata are a client's own text, and may hold a secret by mistake.
function hidden(json: string | null): string | null {
  if (json === null) return null;
  const hideIn = (_: string, value: unknown) => (typeof value === 'string' ? hideSecrets(value) : value);
  return JSON.stringify(JSON.parse(json, hideIn));
}

function textOf(value: object | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}
