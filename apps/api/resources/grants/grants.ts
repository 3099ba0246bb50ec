import { Type, type Static } from 'typebox';
import { gaveUntilNow } from '../../../../shared/books/account-state.ts';
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
    remainingCredits: credits('the rest; of an ended one what holds keep that were open then'),
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

/** Throws where so many grants of a record ended within a day that no more may: its account keeps them, and each turn tells them. */
export function requireFewEnded({ balance, state }: RecordAccount): void {
  const since = balance.atMs - DAY_MS;
  if (state.ended.filter(({ atMs }) => atMs > since).length >= MOST_ENDED)
    throw new ApiError('grant_ended_limit_reached');
}

const MOST_ENDED = 200;

/** Presents grants of a record by what its account says. */
export function grantPresenter(billingId: string, { balance, state }: RecordAccount) {
  const numbers = numbersBy({ balance, state });
  return (row: GrantRow): Static<typeof grant> => {
    const { usedMicros, leftMicros } = numbers(row);
    const is = stateOf(row, leftMicros, balance.atMs);
    const began = row.voidedAt === null || row.hasBegun;
    return {
      ...grantSettings(billingId, row),
      state: is,
      usedCredits: formatCredits(usedMicros),
      expiredCredits: formatCredits(began ? row.amountMicros - usedMicros - leftMicros : 0),
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

/** What a grant gave, and what of it is left or kept for holds, by what a record's account says. */
export function numbersBy({ balance, state }: RecordAccount) {
  const gave = gaveUntilNow(state, balance.usedMicros);
  const granted = new Map(state.classes.map(({ ref, grantedMicros }) => [ref, grantedMicros]));
  const ended = new Map(state.ended.map((one) => [one.ref, one]));
  return (row: GrantRow): { usedMicros: number; leftMicros: number } => {
    const { amountMicros, class: ref } = row;
    if (row.voidedAt !== null && !row.hasBegun) return { usedMicros: 0, leftMicros: 0 };
    const own = ended.get(nameOf(row)) ?? copied(row.usedMicros, row.heldMicros);
    if (own) return { usedMicros: own.usedMicros, leftMicros: own.heldMicros };
    const of = ended.get(ref) ?? (gave.has(ref) ? undefined : copied(row.classUsedMicros, row.classHeldMicros));
    // Nobody knows it any more.
    if (!of && !gave.has(ref) && endOf(row) <= balance.atMs) return { usedMicros: 0, leftMicros: 0 };
    // The class's use, and what it keeps for holds, are laid over its grants in their order.
    if (of) {
      const usedMicros = overlap(row, 0, of.usedMicros);
      return { usedMicros, leftMicros: overlap(row, of.usedMicros, of.usedMicros + of.heldMicros) };
    }
    const usedMicros = overlap(row, 0, gave.get(ref) ?? 0);
    // What did not roll over is gone from a class that has one grant.
    const isRolled = row.rollsUntil !== null && granted.has(ref);
    const left = (isRolled ? Math.min(granted.get(ref)!, amountMicros) : amountMicros) - usedMicros;
    return { usedMicros, leftMicros: row.voidedAt === null ? left : 0 };
  };
}

/** How the account names a grant that was voided. */
export function nameOf({ id, class: ref }: Pick<GrantRow, 'id' | 'class'>): string {
  return `${ref}/${id}`;
}

function copied(usedMicros: number | null, heldMicros: number | null) {
  return usedMicros === null ? undefined : { usedMicros, heldMicros: heldMicros ?? 0 };
}

/** What of a part of its class lies in a grant. */
function overlap({ beforeMicros, amountMicros }: GrantRow, from: number, to: number): number {
  return Math.max(0, Math.min(to, beforeMicros + amountMicros) - Math.max(from, beforeMicros));
}
