import { Type } from 'typebox';
import { lineColumns, lineOf, type LineRow } from '../../../../shared/books/statements/lines.ts';
import { makeStatements } from '../../../../shared/books/statements/statements.ts';
import { TextAnswer } from '../../../../shared/contract/route.ts';
import { day, id, object } from '../../../../shared/contract/schema-kinds.ts';
import { csv, prefersCsv } from '../../http/csv.ts';
import { requireBilling } from '../../resources/billings.ts';
import { findSpan } from '../../resources/statement-spans.ts';
import { monthOf, presentStatement, statement, type StatementAnswer } from '../../resources/statements.ts';
import { route } from '../../http/route.ts';

// The share of the deadline for which it waits for events that are on their way.
const PATIENCE_SHARE = 0.3;

export default route({
  method: 'get',
  path: '/api/v1/customer-billing/{bid}/statement',
  tag: 'Customer billing',
  operationId: 'getStatement',
  summary: 'Get the statement of a billing record: opening balances, every movement, closing balances, and the proof',
  description:
    "Days and months are those of the workspace's time zone. Opening balances and movements add up to the closing ones. A closed month never changes; other ranges are views of the same sums. With `Accept: text/csv` the answer is CSV.",
  permission: 'billing:read',
  alsoPermission: 'usage:read',
  params: object({ bid: id('billing record') }),
  query: object({
    month: Type.Optional(monthOf('the month')),
    from: Type.Optional(day('first day, instead of a month')),
    to: Type.Optional(day('last day, at most 366 days later')),
    format: Type.Optional(Type.Enum(['json', 'csv'], { description: 'replaces the Accept header' })),
  }),
  response: object({ statement }),
  alternative: {
    type: 'text/csv',
    description:
      'RFC 4180, with a header line; a text that a spreadsheet would run as a formula starts with an apostrophe',
    example:
      'day,kind,name,balance,amount,events,grantId,eventId,tokenId,reason,month\r\n2026-10-02,usage,tokens,used,1.5,3,,,,,\r\n',
  },
  errors: ['billing_not_found', 'redis_unavailable', 'usage_unavailable'],

  async handle({ sql, params, query, caller, redis, books, header, deadlineMs }) {
    const billing = await requireBilling(sql, caller, params.bid);
    const { span, closing } = await findSpan(sql, billing.workspaceId, query);
    const [row] = closing
      ? await sql<LineRow[]>`
          select ${lineColumns(sql)} from statement_lines l
          where l.workspace_id = ${billing.workspaceId} and l.month = ${closing.month} and l.billing_id = ${billing.id}`
      : [];
    const wanted = {
      workspaceId: billing.workspaceId,
      billings: [billing],
      span,
      nowMs: Date.now(),
      patienceMs: PATIENCE_SHARE * deadlineMs,
    };
    const made = row ? lineOf(row) : (await makeStatements({ sql, redis, books }, wanted)).statements[0]!;
    const answer = presentStatement(made, { billing, month: query.month, span, closed: row !== undefined });
    const asCsv = query.format ? query.format === 'csv' : prefersCsv(header('accept'));
    return asCsv
      ? new TextAnswer('text/csv; charset=utf-8; header=present', statementCsv(answer))
      : { statement: answer };
  },
});

const COLUMNS = [
  'day',
  'kind',
  'name',
  'balance',
  'amount',
  'events',
  'grantId',
  'eventId',
  'tokenId',
  'reason',
  'month',
] as const;

/** The same as CSV: opening balances, movements, closing balances, and the proof as the last line. */
function statementCsv({ from, to, opening, movements, closing, proof: { status } }: StatementAnswer): string {
  const rows = (on: string, kind: string, all: StatementAnswer['opening']) =>
    Object.entries(all).map(([balance, text]) => [on, kind, '', balance, text, '', '', '', '', '', '']);
  return csv(COLUMNS, [
    ...rows(from, 'opening', opening),
    ...movements.map((one) => COLUMNS.map((name) => one[name] ?? '')),
    ...rows(to, 'closing', closing),
    [to, 'proof', status, '', '', '', '', '', '', '', ''],
  ]);
}
