import { Type } from 'typebox';
import { beginMonth, nextMonth } from '../../../../shared/books/statements/closing.ts';
import { dayBefore } from '../../../../shared/books/statements/span.ts';
import { monthColumns, type ClosedMonth } from '../../../../shared/books/statements/lines.ts';
import { ApiError, invalidField } from '../../../../shared/contract/errors.ts';
import {
  day,
  id,
  named,
  object,
  timestamp,
  count,
  plainText,
  flag,
  signedCredits,
} from '../../../../shared/contract/schema-kinds.ts';
import { monthOf } from '../../resources/statements/statements.ts';
import { readWorkspace } from '../../resources/workspaces.ts';
import { present } from '../../resources/rows.ts';
import { route } from '../../http/route.ts';
import { readProof } from '../../../../shared/books/reconciling/unproved-records.ts';
import { requireWorkspace } from '../../resources/access/access.ts';

const closing = named(
  'MonthClosing',
  object({
    workspaceId: id('workspace'),
    month: monthOf('the month'),
    timezone: plainText(64, 'the time zone in which it was closed', 'Europe/Berlin'),
    from: day('first day, in the time zone'),
    to: day('last day, in the time zone'),
    status: Type.Enum(['CLOSING', 'CLOSED'], {
      description: 'lines of records are being stored; or all are, and nothing of the month changes any more',
      examples: ['CLOSED'],
    }),
    records: Type.Optional(count('how many records have a line', 120)),
    waitsFor: Type.Optional(
      object({
        pending: count('records of which events are on their way', 1),
        different: count('records whose books differ', 0),
        billingIds: Type.Array(id('billing record'), { maxItems: 10, description: 'the first of them' }),
      }),
    ),
    closedAt: Type.Optional(timestamp('when it was closed')),
  }),
);

export const closeMonth = route('post', '/api/v1/workspace/{id}/close', {
  summary: 'Close a month of a workspace: its statements never change any more',
  description:
    'Closes the month after the last closed one, once it is over. From the answer on nothing can be booked into it. A job stores the line of each record whose books are proved; ask again to see how far it is. A repeat changes nothing. Months close by themselves three days after their end.',
  permission: 'billing:write',
  body: object({
    month: monthOf('the month to close'),
    acceptDifferences: Type.Optional(
      flag('also store lines of records whose books differ; they say what differs', false),
    ),
  }),
  response: object({ closing }),
  errors: ['month_not_next'],

  async handle({ sql, params, body, caller, changed, clock }) {
    // Whoever books in the workspace waits for this lock, and then sees the month.
    await readWorkspace(sql, caller, params.id, { alone: true });
    const { month, acceptDifferences: acceptsDifferences = false } = body;
    const [known] = await sql<Known[]>`
      select ${monthColumns(sql)}, waiting from workspace_months where workspace_id = ${params.id} and month = ${month}`;
    if (known) {
      if (!acceptsDifferences || known.acceptsDifferences || known.closedAt) return { closing: answer(known) };
      await sql`
        update workspace_months set accepts_differences = true, looked_at = null
        where workspace_id = ${params.id} and month = ${month}`;
      changed({
        resource: 'workspace_month',
        id: params.id,
        before: { month, acceptsDifferences: false },
        after: { month, acceptsDifferences },
      });
      return { closing: answer(known) };
    }
    const next = await nextMonth(sql, params.id);
    if (next.closing !== null) throw notNext(`${next.closing} is CLOSING; close the next month once it is CLOSED.`);
    if (month !== next.month)
      throw notNext(`The month that can be closed next is ${next.month}; close that one first.`);
    if (next.span.endMs > clock.now())
      throw invalidField('/month', `must be over in the workspace's time zone, ${next.span.timezone}`);
    const begun = await beginMonth(sql, params.id, next, { acceptsDifferences });
    changed({ resource: 'workspace_month', id: params.id, after: { month, acceptsDifferences } });
    return { closing: answer({ ...begun, waiting: null }) };
  },
});

type Known = ClosedMonth & { waiting: { pending: number; different: number; billingIds: string[] } | null };

function answer(known: Known) {
  return present(closing, {
    ...known,
    from: known.startDay,
    to: dayBefore(known.endDay),
    status: known.closedAt ? 'CLOSED' : 'CLOSING',
    waitsFor: known.waiting,
  });
}

function notNext(message: string): ApiError {
  return new ApiError('month_not_next', { message });
}

const MOST_DIFFERENT = 100;

const different = named(
  'DifferentRecord',
  object({
    billingId: id('billing record'),
    externalMeterId: plainText(128, "the record's external meter", 'acme-prod'),
    status: Type.Enum(['MISSING', 'TOO_MUCH'], {
      description: 'whether the books contain less than was used, or more',
    }),
    difference: signedCredits('used credits missing in the books, or else in the daily usage; negative: too much'),
    heldDifference: signedCredits('reserved credits missing in the books; negative: too much'),
    since: timestamp('since when it differs so'),
  }),
);

export const getWorkspaceProof = route('get', '/api/v1/workspace/{id}/proof', {
  summary: "Tell when a workspace's books were proved, and which records differ",
  description:
    'Every hour all billing records are compared with the books; this is what was found last. `GET /api/v1/customer-billing/{bid}/reconciliation` compares one record now, and says where it differs.',
  permission: 'billing:read',
  response: object({
    proof: named(
      'WorkspaceProof',
      object({
        provedAt: Type.Optional(
          timestamp('when the last comparison of all records began; absent before the first one'),
        ),
        differentRecords: count('records that differ', 0),
        undecidedRecords: count('records whose events were still on their way to the books', 0),
        different: Type.Array(different, {
          maxItems: MOST_DIFFERENT,
          description: `the first ${MOST_DIFFERENT} records that differ`,
        }),
      }),
    ),
  }),

  async handle({ sql, params, caller }) {
    await requireWorkspace(sql, caller, params.id);
    const { atMs, different: found, ...counts } = await readProof(sql, params.id, MOST_DIFFERENT);
    return {
      proof: {
        ...(atMs !== undefined && { provedAt: new Date(atMs).toISOString() }),
        ...counts,
        different: found.map(({ id: billingId, ...record }) => present(different, { billingId, ...record })),
      },
    };
  },
});
