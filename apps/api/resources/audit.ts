import type { Caller } from '../../../shared/contract/caller.ts';
import { newId } from '../../../shared/values/ids.ts';
import type { Operation } from '../../../shared/contract/route.ts';
import type { Query } from '../../../shared/stores/postgres.ts';

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

/** What happened to one thing: it was made where there is no `before`, and is gone where there is no `after`. */
export type AuditLine = { resource: AuditResource; id: string; before: object | undefined; after: object | undefined };

/** Writes a line of the audit log with the change that it tells of. What changed nothing leaves none. */
export type Audit = (
  resource: AuditResource,
  id: string,
  before: object | undefined,
  after: object | undefined,
) => void;

/** Who asked for a change, and by what; the operator has no token, and asks on the command line. */
export type AuditOrigin = {
  teamId: string;
  tokenId: Caller['tokenId'] | null;
  operation: string;
  requestId: string | null;
};

/** A request as the origin of a change. */
export function originOf(
  { method, path }: Pick<Operation, 'method' | 'path'>,
  { teamId, tokenId }: Caller,
  requestId: string,
): AuditOrigin {
  return { teamId, tokenId, operation: `${method.toUpperCase()} ${path}`, requestId };
}

/** Stores lines in the transaction of the changes that they tell of. */
export async function recordAudit(sql: Query, origin: AuditOrigin, lines: AuditLine[]): Promise<void> {
  const { teamId, tokenId, operation, requestId } = origin;
  const told = lines.map((line) => ({ ...line, was: textOf(line.before), is: textOf(line.after) }));
  for (const { resource, id, was, is } of told.filter((line) => line.was !== line.is)) {
    await sql`
      insert into audit_log (id, team_id, token_id, operation, resource, resource_id, before, after, request_id)
      values (${newId('audit')}, ${teamId}, ${tokenId}, ${operation}, ${resource}, ${id}, ${was}::text::json, ${is}::text::json,
              ${requestId})`;
  }
}

function textOf(value: object | undefined): string | null {
  return value === undefined ? null : JSON.stringify(value);
}
