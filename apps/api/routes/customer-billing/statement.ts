import { Type, type Static } from 'typebox';
import { object, day } from '../../../../shared/contract/schema-kinds.ts';
import { csv, csvForm, formParameters, inForm } from '../../http/forms.ts';
import { route, type Services } from '../../http/route.ts';
import { requireBilling, type BillingRow } from '../../resources/billings/billings.ts';
import { findSpan, readStatements } from '../../resources/statements/spans.ts';
import { statement, monthOf, presentStatement, type StatementAnswer } from '../../resources/statements/statements.ts';

// The share of the time left for which it waits for events that are on their way.
const PATIENCE_SHARE = 0.3;

/** For which time a request wants a statement. */
export const spanParameters = {
  month: Type.Optional(monthOf('the month')),
  from: Type.Optional(day('first day, instead of a month')),
  to: Type.Optional(day('last day, at most 366 days later')),
};

/** What a request for a statement says. */
export const statementQuery = object({ ...spanParameters, ...formParameters('json', 'csv') });

/** The form of a statement besides JSON. */
export const statementForms = csvForm(
  'day,kind,name,balance,amount,events,grantId,eventId,tokenId,reason,month\r\n2026-10-02,usage,tokens,used,1.5,3,,,,,\r\n',
);

export const getStatement = route('get', '/api/v1/customer-billing/{bid}/statement', {
  summary: 'Get the statement of a billing record: opening balances, every movement, closing balances, and the proof',
  description:
    "Days and months are those of the workspace's time zone. Opening balances and movements add up to the closing ones. A closed month never changes; other ranges are views of the same sums. With `Accept: text/csv` the answer is CSV.",
  permission: 'billing:read',
  alsoPermission: 'usage:read',
  query: statementQuery,
  response: object({ statement }),
  alternative: statementForms,
  errors: ['redis_unavailable', 'usage_unavailable'],

  async handle(call) {
    const billing = await requireBilling(call.sql, call.caller, call.params.bid);
    const statement = await readStatement(call, billing, call.query);
    return inForm(call, 'statement', { statement }, () => statementCsv(statement));
  },
});

/** The statement of a record. */
export async function readStatement(
  { sql, redis, books, clock, leftMs }: Pick<Services, 'sql' | 'redis' | 'books' | 'clock' | 'leftMs'>,
  billing: BillingRow,
  query: Static<typeof statementQuery>,
): Promise<StatementAnswer> {
  const found = await findSpan(sql, billing.workspaceId, query);
  const patienceMs = PATIENCE_SHARE * leftMs();
  const wanted = { workspaceId: billing.workspaceId, billings: [billing], found, nowMs: clock.now(), patienceMs };
  const read = await readStatements({ sql, redis, books }, wanted);
  return presentStatement(read.get(billing.id)!, { billing, month: query.month, span: found.span });
}

// What was lost adds nothing.
const { lost: _, ...columns } = statement.properties.movements.items.properties;
const COLUMNS = Object.keys(columns) as (keyof typeof columns)[];

/** A statement as CSV: opening balances, movements, closing balances, and the proof as the last line. */
export function statementCsv({ from, to, opening, movements, closing, proof: { status } }: StatementAnswer): string {
  const rows = (on: string, kind: string, all: StatementAnswer['opening']) =>
    Object.entries(all).map(([balance, text]) => [on, kind, '', balance, text, '', '', '', '', '', '']);
  return csv(COLUMNS, [
    ...rows(from, 'opening', opening),
    ...movements.map((one) => COLUMNS.map((name) => one[name] ?? '')),
    ...rows(to, 'closing', closing),
    [to, 'proof', status, '', '', '', '', '', '', '', ''],
  ]);
}
