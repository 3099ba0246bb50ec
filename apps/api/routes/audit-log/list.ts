import { Type } from 'typebox';
import { day, id, object, requestIdText, textOf, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { auditResources, type AuditResource } from '../../resources/audit.ts';
import { requireWholeTeam } from '../../resources/access.ts';
import { nextCursor, pageItems, pageParameters, readPage } from '../../http/pages.ts';
import { route } from '../../http/route.ts';

const state = (when: string) =>
  Type.Unsafe<Record<string, unknown>>({
    type: 'object',
    maxProperties: 64,
    'x-limits': { maxBytes: 262_144, maxDepth: 8 },
    description: `as it ${when}, without secrets`,
    examples: [{ id: 'ws_01kafc6v3nf0qtmhd7d5ryx2s9', name: 'Acme' }],
  });
const auditEntry = object({
  id: id('audit entry'),
  operation: Type.String({
    maxLength: 128,
    description: 'method and path of the operation, or the command of the operator',
    examples: ['PATCH /api/v1/workspace/{id}'],
  }),
  resource: Type.Enum([...auditResources], { examples: ['workspace'] }),
  resourceId: Type.String({
    maxLength: 64,
    description: 'id of what changed',
    examples: ['ws_01kafc6v3nf0qtmhd7d5ryx2s9'],
  }),
  tokenId: Type.Optional(id('access token', ' that made the change; absent: the operator')),
  requestId: Type.Optional(requestIdText('req-1')),
  before: Type.Optional(state('was; absent: it was created')),
  after: Type.Optional(state('is since then; absent: it is gone')),
  createdAt: timestamp('when it changed'),
});

export default route({
  method: 'get',
  path: '/api/v1/audit-log',
  tag: 'Audit log',
  summary: 'List who changed what, oldest first',
  permission: 'audit:read',
  query: object({
    ...pageParameters,
    tokenId: Type.Optional(textOf(64, 'only changes that this access token made', 'tok_01kafc6v3nf0qtmhd7d5ryx2s9')),
    resource: Type.Optional(Type.Enum([...auditResources], { description: 'only changes of this kind of resource' })),
    resourceId: Type.Optional(textOf(64, 'only changes of this resource', 'ws_01kafc6v3nf0qtmhd7d5ryx2s9')),
    requestId: Type.Optional(textOf(128, 'only changes of this request', 'req-1')),
    from: Type.Optional(day('first day')),
    to: Type.Optional(day('last day')),
  }),
  response: object({ auditLog: pageItems(auditEntry), nextCursor }),
  errors: ['workspace_forbidden'],

  async handle({ sql, query, caller }) {
    requireWholeTeam(caller);
    const { tokenId, resource, resourceId, requestId, from, to } = query;
    const read = (after: string, take: number) => sql<AuditRow[]>`
      select id, operation, resource, resource_id, token_id, request_id, before, after, created_at from audit_log
      where team_id = ${caller.teamId} and id > ${after}
        ${tokenId === undefined ? sql`` : sql`and token_id = ${tokenId}`}
        ${resource === undefined ? sql`` : sql`and resource = ${resource}`}
        ${resourceId === undefined ? sql`` : sql`and resource_id = ${resourceId}`}
        ${requestId === undefined ? sql`` : sql`and request_id = ${requestId}`}
        ${from === undefined ? sql`` : sql`and created_at >= ${from}::date`}
        ${to === undefined ? sql`` : sql`and created_at < ${to}::date + 1`}
      order by id limit ${take}`;
    const { items, next } = await readPage(query, `audit log of ${caller.teamId}`, read, present);
    return { auditLog: items, ...next };
  },
});

type AuditRow = {
  id: string;
  operation: string;
  resource: AuditResource;
  resourceId: string;
  tokenId: string | null;
  requestId: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  createdAt: Date;
};

function present({ id, operation, resource, resourceId, tokenId, requestId, before, after, createdAt }: AuditRow) {
  return {
    id,
    operation,
    resource,
    resourceId,
    ...(tokenId !== null && { tokenId }),
    ...(requestId !== null && { requestId }),
    ...(before !== null && { before }),
    ...(after !== null && { after }),
    createdAt: createdAt.toISOString(),
  };
}
