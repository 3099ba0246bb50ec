import { Type, type Static } from 'typebox';
import {
  day,
  id,
  MOST_TEXT,
  named,
  object,
  requestIdText,
  textOf,
  timestamp,
  plainText,
  whole,
} from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { auditResources } from '../../resources/record.ts';
import { columnsOf, matching, present, type Row } from '../../resources/rows.ts';
import { requireWholeTeam } from '../../resources/access/access.ts';
import { listRoute } from '../../http/pages.ts';

const outcomes = ['changed', 'denied'] as const;
const actors = ['access_token', 'operator'] as const;
const state = (when: string) =>
  Type.Unsafe<Record<string, unknown>>({
    type: 'object',
    maxProperties: 64,
    'x-limits': { maxBytes: 262_144, maxDepth: 8 },
    description: `as it ${when}, without secrets; of a field above 2048 bytes its size and the SHA-256 of its JSON`,
    examples: [{ id: 'ws_01kafc6v3nf0qtmhd7d5ryx2s9', name: 'Acme' }],
  });
const auditEntry = named(
  'AuditEntry',
  object({
    id: id('audit entry'),
    operation: plainText(
      128,
      'method and path of the operation, or the command of the operator',
      'PATCH /api/v1/workspace/{id}',
    ),
    outcome: Type.Enum([...outcomes], {
      description: '`denied`: attempts of a known access token that were refused with 401 or 403, and touched nothing',
      examples: ['changed'],
    }),
    errorCode: Type.Optional(whole('why attempts were denied', 40301)),
    attempts: Type.Optional(
      whole('how many attempts of this token, operation and error were denied; the line tells of the first one', 12),
    ),
    resource: Type.Optional(Type.Enum([...auditResources], { examples: ['workspace'] })),
    resourceId: Type.Optional(plainText(64, 'id of what changed', 'ws_01kafc6v3nf0qtmhd7d5ryx2s9')),
    actor: Type.Enum([...actors], { description: 'who it was', examples: ['access_token'] }),
    tokenId: Type.Optional(id('access token', ' that made the change; absent: the operator')),
    address: Type.Optional(
      plainText(
        64,
        'address of the client; absent: the operator, or work that went on after the answer',
        '203.0.113.7',
      ),
    ),
    userAgent: Type.Optional(plainText(256, 'User-Agent of the client, at most 256 characters', 'curl/8.14.1')),
    requestId: Type.Optional(requestIdText('req-1')),
    before: Type.Optional(state('was; absent: it was created')),
    after: Type.Optional(state('is since then; absent: it is gone')),
    createdAt: timestamp('when it changed, or was denied'),
  }),
);

const filters = {
  tokenId: Type.Optional(
    plainText(MOST_TEXT, 'only changes that this access token made', 'tok_01kafc6v3nf0qtmhd7d5ryx2s9'),
  ),
  resource: Type.Optional(Type.Enum([...auditResources], { description: 'only changes of this kind of resource' })),
  resourceId: Type.Optional(plainText(MOST_TEXT, 'only changes of this resource', 'ws_01kafc6v3nf0qtmhd7d5ryx2s9')),
  requestId: Type.Optional(textOf(128, 'only changes of this request', 'req-1')),
  outcome: Type.Optional(Type.Enum([...outcomes], { description: 'only lines with this outcome' })),
  address: Type.Optional(textOf(64, 'only lines of this client address', '203.0.113.7')),
  from: Type.Optional(day('first day')),
  to: Type.Optional(day('last day')),
  order: Type.Enum(['oldest', 'newest'], { default: 'oldest', description: 'which lines come first' }),
};

export const listAuditLog = listRoute('/api/v1/audit-log', 'auditLog', auditEntry, {
  summary: 'List who changed what, and who was denied',
  description: 'Filters can be combined. Attempts that were denied are lines too.',
  permission: 'audit:read',
  query: filters,
  errors: ['workspace_forbidden'],

  async open({ sql, query, caller }) {
    requireWholeTeam(caller);
    return {
      read: (after, take) => selectLines(sql, { ...query, teamId: caller.teamId, after }, take),
      present: (row) => present(auditEntry, row),
      order: query.order,
    };
  },
});

export type LinesQuery = Partial<Static<ReturnType<typeof object<typeof filters>>>> & { teamId: string; after: string };

const COLUMNS = columnsOf(auditEntry, {
  actor: `case when token_id is null then 'operator' else 'access_token' end`,
});

/** Reads the next lines of a team in the order of their ids, or against it. Each filter alone is a range of an index, so it reads what it gives. */
export function selectLines(sql: Query, query: LinesQuery, take: number) {
  const { teamId, after, tokenId, resource, resourceId, requestId, outcome, address, from, to, order } = query;
  const isNewest = order === 'newest';
  return sql<Row<typeof auditEntry>[]>`
    select ${sql.unsafe(COLUMNS)} from audit_log
    where ${matching(sql, { teamId, tokenId, resource, resourceId, requestId, outcome, address })}
      ${after === '' ? sql`` : isNewest ? sql`and id < ${after}` : sql`and id > ${after}`}
      ${from === undefined ? sql`` : sql`and created_at >= ${from}::date and id >= ${firstId(sql, from, '-1 second')}`}
      ${to === undefined ? sql`` : sql`and created_at < ${to}::date + 1 and id < ${firstId(sql, to, '1 day 1 second')}`}
    order by id ${isNewest ? sql`desc` : sql``} limit ${take}`;
}

// An id tells the time of its line, rounded to milliseconds: hence a second more.
function firstId(sql: Query, day: string, later: string) {
  return sql`'audit_' || id_time(greatest(${day}::date, date '1970-01-02') + ${later}::interval)`;
}
