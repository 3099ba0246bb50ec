import { Type, type Static } from 'typebox';
import {
  movementKinds,
  type BalanceName,
  type Balances,
  type Movement,
  type MovementKind,
} from '../../../../shared/books/statements/movements.ts';
import type { BillingRef } from '../../../../shared/books/billing-refs.ts';
import { dayBefore, type Span } from '../../../../shared/books/statements/span.ts';
import {
  credits,
  day,
  id,
  named,
  object,
  signedCredits,
  count,
  plainText,
  whole,
} from '../../../../shared/contract/schema-kinds.ts';
import { externalMeterId } from '../../../../shared/contract/schemas.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { present, type Values } from '../rows.ts';
import type { ReadStatement } from './spans.ts';

/** An exact amount of a statement. */
export const amount = (what: string) =>
  plainText(32, `${what}: decimal text, exact; negative where it takes away`, '1.5');

const balances = named(
  'StatementBalances',
  object({
    total: credits('credits that were granted, ever'),
    used: amount('credits used, ever'),
    expired: amount('credits that expired, ever'),
    remaining: amount('total less used and expired; what holds reserved at a past moment is in no book'),
  }),
);

const movement = named(
  'StatementMovement',
  object({
    day: day('the day'),
    kind: Type.Enum([...movementKinds], {
      description:
        'grants that began, what expired of them or was voided; usage by name; adjustments; what is late, of a month that was closed before; usage that was lost, which adds nothing',
      examples: ['usage'],
    }),
    name: plainText(256, 'usage name, or name of the grant', 'tokens'),
    balance: Type.Enum(['total', 'used', 'expired'], { description: 'what it adds to', examples: ['used'] }),
    amount: amount('what it adds'),
    events: Type.Optional(
      whole('verifications and captures; of a loss those that were lost, of lines that are told as one how many', 3),
    ),
    grantId: Type.Optional(id('grant')),
    eventId: Type.Optional(id('event', ' of the adjustment')),
    tokenId: Type.Optional(id('access token', ' that made the adjustment')),
    reason: Type.Optional(plainText(1024, 'why', 'counted twice')),
    month: Type.Optional(monthOf('the closed month that what is late belongs to')),
    lost: Type.Optional(signedCredits('what a loss would have cost, where that is known')),
  }),
);

const proof = named(
  'StatementProof',
  object({
    status: Type.Enum(['EXACT', 'PENDING', 'DIFFERENT'], {
      description: 'the books have all that was debited; or events are on their way to them; or they differ',
      examples: ['EXACT'],
    }),
    pendingEvents: Type.Optional(count('how many are on their way, as far as that is known', 2)),
    differences: Type.Optional(
      Type.Array(
        object({
          what: Type.String({ maxLength: 256, examples: ['used credits that the books lack'] }),
          credits: amount('by how much'),
        }),
        {
          maxItems: 8,
          description: 'what differs',
        },
      ),
    ),
  }),
);

export const statement = named(
  'Statement',
  object({
    billingId: id('billing record'),
    workspaceId: id('workspace'),
    externalMeterId,
    month: Type.Optional(monthOf('the month, if one was asked for')),
    from: day('first day, in the time zone'),
    to: day('last day, in the time zone'),
    timezone: plainText(64, "the workspace's time zone", 'Europe/Berlin'),
    closed: Type.Boolean({
      description: 'whether the month is closed for this record: then nothing of it changes any more',
    }),
    opening: balances,
    movements: Type.Array(movement, { maxItems: 20_000, description: 'in the order of day, kind and name' }),
    closing: balances,
    proof,
  }),
);
export type StatementAnswer = Static<typeof statement>;

/** A calendar month, in a request or an answer. */
export function monthOf(what: string) {
  return Type.String({ pattern: '^20\\d{2}-(0[1-9]|1[0-2])$', description: `${what}, YYYY-MM`, examples: ['2026-10'] });
}

type Presented = { billing: BillingRef; month: string | undefined; span: Span };

export function presentStatement(made: ReadStatement, { billing, month, span }: Presented): StatementAnswer {
  return {
    billingId: billing.id,
    workspaceId: billing.workspaceId,
    externalMeterId: billing.externalMeterId,
    ...(month !== undefined && { month }),
    from: span.startDay,
    to: dayBefore(span.endDay),
    timezone: span.timezone,
    closed: made.closed,
    opening: presentBalances(made.opening),
    movements: made.movements.map(presentMovement),
    closing: presentBalances(made.closing),
    proof: made.proof,
  };
}

export function presentBalances({ totalMicros, usedMicros, expiredMicros }: Balances) {
  return {
    total: formatCredits(totalMicros),
    used: formatCredits(usedMicros),
    expired: formatCredits(expiredMicros),
    remaining: formatCredits(totalMicros - usedMicros - expiredMicros),
  };
}

function presentMovement({ micros: amountMicros, ...rest }: Movement): StatementAnswer['movements'][number] {
  return present(movement, { ...rest, amountMicros } as Values<typeof movement>);
}

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
    lateGranted: amount('grants of months that were closed before'),
    lateExpired: amount('what expired or was voided in them'),
  }),
);
export type StatementLine = Static<typeof statementLine>;

/** The columns of the file, which stay in this order. */
export const lineNames = Object.keys(statementLine.properties) as (keyof StatementLine)[];

/** The line of a statement. */
export function presentLine(
  { billingId, closed, opening, closing, movements, proof }: ReadStatement,
  externalMeterId: string,
  span: Span,
): StatementLine {
  const [first, last] = [presentBalances(opening), presentBalances(closing)];
  const sum = (kind: MovementKind, of?: BalanceName) => {
    const some = movements.filter((one) => one.kind === kind && (of ?? one.balance) === one.balance);
    return formatCredits(some.reduce((all, { micros }) => all + micros, 0));
  };
  return {
    billingId,
    externalMeterId,
    from: span.startDay,
    to: dayBefore(span.endDay),
    timezone: span.timezone,
    openingTotal: first.total,
    openingUsed: first.used,
    openingExpired: first.expired,
    openingRemaining: first.remaining,
    granted: sum('granted'),
    expired: sum('expired'),
    voided: sum('voided'),
    usage: sum('usage'),
    adjustments: sum('adjustment'),
    late: sum('late', 'used'),
    events: movements.reduce(
      (all, { kind, events = 0 }) => all + (kind === 'usage' || kind === 'late' ? events : 0),
      0,
    ),
    closingTotal: last.total,
    closingUsed: last.used,
    closingExpired: last.expired,
    closingRemaining: last.remaining,
    proof: proof.status,
    closed,
    lateGranted: sum('late', 'total'),
    lateExpired: sum('late', 'expired'),
  };
}

/** The fields of a line as texts, in the order of the columns. */
export function fieldsOf(line: StatementLine): string[] {
  return lineNames.map((name) => String(line[name]));
}
