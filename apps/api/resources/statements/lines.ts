import { Type, type Static } from 'typebox';
import type { MovementKind } from '../../../../shared/books/statements/movements.ts';
import type { Statement } from '../../../../shared/books/statements/statements.ts';
import type { Span } from '../../../../shared/books/statements/span.ts';
import { day, id, named, object, count, plainText } from '../../../../shared/contract/schema-kinds.ts';
import { externalMeterId } from '../../../../shared/contract/schemas.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { amount, presentBalances } from './statements.ts';

/** One line for each record: the file that finance imports. */
export const statementLine = named(
  'StatementLine',
  object({
    billingId: id('billing record'),
    externalMeterId,
    from: day('first day, in the time zone'),
    to: day('last day, in the time zone'),
    timezone: plainText(64, "the workspace's time zone", 'Europe/Berlin'),
    openingTotal: amount('credits granted before'),
    openingUsed: amount('credits used before'),
    openingExpired: amount('credits expired before'),
    openingRemaining: amount('what remained before'),
    granted: amount('grants that began'),
    expired: amount('what expired of grants'),
    voided: amount('what was voided'),
    usage: amount('usage'),
    adjustments: amount('adjustments'),
    late: amount('usage of months that were closed before'),
    events: count('verifications and captures', 3),
    closingTotal: amount('credits granted until the end'),
    closingUsed: amount('credits used until the end'),
    closingExpired: amount('credits expired until the end'),
    closingRemaining: amount('what remained at the end'),
    proof: Type.Enum(['EXACT', 'PENDING', 'DIFFERENT'], { description: 'as in the statement', examples: ['EXACT'] }),
    closed: Type.Boolean({ description: 'whether the month is closed for this record' }),
  }),
);
export type StatementLine = Static<typeof statementLine>;

/** The columns of the file, which stay in this order. */
export const lineNames = Object.keys(statementLine.properties) as (keyof StatementLine)[];

type Of = { billingId: string; externalMeterId: string; span: Span; to: string; closed: boolean };

/** The line of a statement. */
export function presentLine({ opening, closing, movements, proof }: Statement, of: Of): StatementLine {
  const [first, last] = [presentBalances(opening), presentBalances(closing)];
  const sum = (kind: MovementKind) =>
    formatCredits(movements.filter((one) => one.kind === kind).reduce((all, { micros }) => all + micros, 0));
  const lateUsed = movements.filter(({ kind, balance }) => kind === 'late' && balance === 'used');
  return {
    billingId: of.billingId,
    externalMeterId: of.externalMeterId,
    from: of.span.startDay,
    to: of.to,
    timezone: of.span.timezone,
    openingTotal: first.total,
    openingUsed: first.used,
    openingExpired: first.expired,
    openingRemaining: first.remaining,
    granted: sum('granted'),
    expired: sum('expired'),
    voided: sum('voided'),
    usage: sum('usage'),
    adjustments: sum('adjustment'),
    late: formatCredits(lateUsed.reduce((all, { micros }) => all + micros, 0)),
    events: movements.reduce(
      (all, { kind, events = 0 }) => all + (kind === 'usage' || kind === 'late' ? events : 0),
      0,
    ),
    closingTotal: last.total,
    closingUsed: last.used,
    closingExpired: last.expired,
    closingRemaining: last.remaining,
    proof: proof.status,
    closed: of.closed,
  };
}
