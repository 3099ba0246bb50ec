import { Type, type Static } from 'typebox';
import type { ClassUse } from '../../../../shared/books/account-state.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { credits, id, instant, named, object, textOf, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { metadata, name } from '../../../../shared/contract/schemas.ts';
import { NEVER } from '../../../../shared/stores/account-settings.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import type { RecordAccount } from '../../sync/accounts.ts';
import { present, without } from '../rows.ts';
import { grantRows, type GrantRow } from './rows.ts';

export const grantStates = ['VOIDED', 'EXPIRED', 'PENDING', 'USED_UP', 'ACTIVE'] as const;
export type GrantState = (typeof grantStates)[number];

export const priority = Type.Integer({
  minimum: 0,
  maximum: 100,
  default: 50,
  description:
    'which grants are drawn first: those of the lowest number, among them the one that ends first, then the older',
  examples: [10],
});
export const voidReason = textOf(512, 'why it was voided', 'ordered by mistake');

/** A grant of credits as the API answers it. */
export const grant = named(
  'Grant',
  object({
    id: id('grant'),
    billingId: id('billing record'),
    credits: credits('credits granted'),
    name: Type.Optional(name),
    state: Type.Enum([...grantStates], {
      description:
        'the first that applies: it was voided, has ended, has yet to begin, is used up; or it is drawn from',
      examples: ['ACTIVE'],
    }),
    usedCredits: credits('credits of it that were used'),
    expiredCredits: credits('what was left of it when it ended or was voided'),
    remainingCredits: credits('the rest; of an ended one what open holds drew from it'),
    priority,
    beginsAt: instant('when it begins, or began'),
    expiresAt: Type.Optional(instant('when it ends; absent: never')),
    scheduleId: Type.Optional(id('grant schedule', ' that made it')),
    metadata: Type.Optional(metadata),
    voidedAt: Type.Optional(instant('when it was voided')),
    reason: Type.Optional(voidReason),
    createdAt: timestamp('when it was made'),
  }),
);

const settings = without(grant, ['state', 'usedCredits', 'expiredCredits', 'remainingCredits']);

/** A grant of a record; 404 without one. */
export async function requireGrant(sql: Query, billing: { id: string }, grantId: string): Promise<GrantRow> {
  const [row] = isId(grantId) ? await grantRows(sql, billing.id, { id: grantId }) : [];
  if (!row) throw new ApiError('grant_not_found');
  return row;
}

/** Whether a grant was voided before it began: it never counted. */
function neverBegan({ state, forgotten }: RecordAccount, { voidedAt, hasBegun, voidNumber }: GrantRow): boolean {
  const isKnown = (number: number) => forgotten.has(number) || state.ended.some((one) => one.number === number);
  return voidedAt !== null && !hasBegun && !(voidNumber !== null && isKnown(voidNumber));
}

/** Throws where so many grants of a record ended within a day that no more may: its account keeps them. */
export function requireFewEnded({ balance, state }: RecordAccount): void {
  const since = balance.atMs - DAY_MS;
  if (state.ended.filter(({ atMs }) => atMs > since).length >= MOST_ENDED)
    throw new ApiError('grant_ended_limit_reached');
}

const MOST_ENDED = 200;

/** Presents grants of a record by what its account says. */
export function grantPresenter(billingId: string, account: RecordAccount) {
  const numbers = numbersBy(account);
  return (row: GrantRow): Static<typeof grant> => {
    const { usedMicros, leftMicros } = numbers(row);
    const isNever = neverBegan(account, row);
    const is = stateOf(row, leftMicros, account.balance.atMs);
    return {
      ...grantSettings(billingId, row),
      state: is,
      usedCredits: formatCredits(usedMicros),
      expiredCredits: formatCredits(isNever ? 0 : row.amountMicros - usedMicros - leftMicros),
      remainingCredits: formatCredits(leftMicros),
    };
  };
}

/** The part of a grant that requests set; use and time change the rest. */
export function grantSettings(billingId: string, row: GrantRow) {
  const end = endOf(row);
  return present(settings, {
    ...row,
    billingId,
    credits: formatCredits(row.amountMicros),
    expiresAt: end === NEVER ? null : end,
    reason: row.voidReason,
  });
}

/** The state of a grant of which so much is left. */
export function stateOf(row: GrantRow, leftMicros: number, nowMs: number): GrantState {
  if (row.voidedAt !== null) return 'VOIDED';
  if (endOf(row) <= nowMs) return 'EXPIRED';
  if (row.beginsAt > nowMs) return 'PENDING';
  return leftMicros === 0 ? 'USED_UP' : 'ACTIVE';
}

/** When a grant ends for good. */
export function endOf({ expiresAt, rollsUntil }: GrantRow): number {
  return rollsUntil ?? expiresAt ?? NEVER;
}

/** What a grant gave, what of it open holds own, and what is left with that, by what a record's account says. */
export function numbersBy({ balance, state, forgotten }: RecordAccount) {
  const ended = new Map<number, ClassUse>([...forgotten, ...state.ended.map((one) => [one.number, one] as const)]);
  const open = new Map(state.classes.map((one) => [one.number, one]));
  return (row: GrantRow): { usedMicros: number; heldMicros: number; leftMicros: number } => {
    const { amountMicros, number, voidNumber } = row;
    const own = voidNumber === null ? undefined : ended.get(voidNumber);
    if (own) return { usedMicros: own.usedMicros, heldMicros: own.heldMicros, leftMicros: own.heldMicros };
    const openClass = open.get(number);
    const of = openClass ?? ended.get(number);
    const isOver = !row.hasBegun ? row.voidedAt !== null : !of && endOf(row) <= balance.atMs;
    if (isOver || !of) return { ...NOTHING, leftMicros: isOver ? 0 : amountMicros };
    // What the class gave, and what holds own of it, are laid over its grants in their order.
    const usedMicros = overlap(row, 0, of.usedMicros);
    const heldMicros = overlap(row, of.usedMicros, of.usedMicros + of.heldMicros);
    if (!openClass) return { usedMicros, heldMicros, leftMicros: heldMicros };
    // What did not roll over is gone from a class that has one grant.
    const left = (row.rollsUntil === null ? amountMicros : openClass.grantedMicros) - usedMicros;
    return { usedMicros, heldMicros, leftMicros: row.voidedAt === null ? left : heldMicros };
  };
}

const NOTHING = { usedMicros: 0, heldMicros: 0 };

/** What of a part of its class lies in a grant. */
function overlap({ beforeMicros, amountMicros }: GrantRow, from: number, to: number): number {
  return Math.max(0, Math.min(to, beforeMicros + amountMicros) - Math.max(from, beforeMicros));
}
