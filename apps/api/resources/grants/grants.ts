import { Type, type Static } from 'typebox';
import type { ClassUse } from '../../../../shared/books/account-state.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { credits, id, instant, named, object, textOf, timestamp } from '../../../../shared/contract/schema-kinds.ts';
import { metadata, name } from '../../../../shared/contract/schemas.ts';
import { NEVER, PLAIN_CLASS, PLAIN_NUMBER } from '../../../../shared/stores/account-settings.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { formatCredits } from '../../../../shared/values/credits.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { DAY_MS } from '../../../../shared/values/periods.ts';
import { type RecordAccount, readAccount } from '../../sync/accounts.ts';
import type { AuditLine } from '../record.ts';
import { present, without, type Row } from '../rows.ts';
import { readBooked } from '../../../../shared/books/sums/booked.ts';
import type { Books } from '../../../../shared/stores/clickhouse.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';

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
/** Why credits can't be granted. */
export const grantErrors = [
  'credits_too_large',
  'grant_class_limit_reached',
  'grant_pending_limit_reached',
  'grant_ended_limit_reached',
] as const;
export const voidReason = textOf(512, 'why it was voided', 'ordered by mistake');

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
    planId: Type.Optional(id('plan', ' that gave it')),
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
export function requireFewEnded(account: RecordAccount): void {
  if (hasManyEnded(account)) throw new ApiError('grant_ended_limit_reached');
}

/** Whether so many grants of a record ended within a day that no more may. */
export function hasManyEnded({ balance, state }: RecordAccount): boolean {
  const since = balance.atMs - DAY_MS;
  return state.ended.filter(({ atMs }) => atMs > since).length >= MOST_ENDED;
}

const MOST_ENDED = 200;

/** Presents grants of a record by what its account says. */
export function grantPresenter(account: RecordAccount) {
  const numbers = numbersBy(account);
  return (row: GrantRow): Static<typeof grant> => {
    const { usedMicros, leftMicros } = numbers(row);
    const isNever = neverBegan(account, row);
    const is = stateOf(row, leftMicros, account.balance.atMs);
    return {
      ...grantSettings(row),
      state: is,
      usedCredits: formatCredits(usedMicros),
      expiredCredits: formatCredits(isNever ? 0 : row.amountMicros - usedMicros - leftMicros),
      remainingCredits: formatCredits(leftMicros),
    };
  };
}

/** What to say of a change of a grant. */
export function changedGrant({ before, after }: { before?: GrantRow; after?: GrantRow }): AuditLine {
  const { id } = (after ?? before)!;
  return { resource: 'grant', id, before: before && grantSettings(before), after: after && grantSettings(after) };
}

/** The part of a grant that requests set; use and time change the rest. */
function grantSettings(row: GrantRow) {
  const end = endOf(row);
  return present(settings, {
    ...row,
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

/** A grant as Postgres has it. */
export type GrantRow = Omit<Row<typeof settings>, 'credits' | 'reason'> & {
  class: string;
  /** By which the account and the books name its class; and of a voided one the class that it became, null where it had its own. */
  number: number;
  voidNumber: number | null;
  amountMicros: number;
  rollsUntil: number | null;
  voidReason: string | null;
  /** Whether it was counted as begun; one that was voided before is never counted. */
  hasBegun: boolean;
  /** What stands before it in its class. */
  beforeMicros: number;
};

/** Grants of a record in the order of their ids: one, or some after another. */
export async function grantRows(
  sql: Query,
  billingId: string,
  which: { id: string } | { after: string; take: number },
): Promise<GrantRow[]> {
  const [isAsked, most] = 'id' in which ? [sql`id = ${which.id}`, 1] : [sql`id > ${which.after}`, which.take];
  return sql<GrantRow[]>`
    select f.id, f.billing_id, f.class, f.amount_micros, f.name, f.priority, f.begins_at, f.expires_at, f.rolls_until, f.metadata, f.schedule_id, f.plan_id,
           f.voided_at, f.void_reason, f.void_number, f.created_at, f.before_micros is not null as has_begun,
           coalesce(c.number, ${PLAIN_NUMBER})::int as number, (place.micros - voided.micros)::bigint as before_micros
    from (select * from grants where billing_id = ${billingId} and ${isAsked} order by id limit ${most}) f
    join billing_records b on b.id = ${billingId}
    left join grant_classes c on c.billing_id = b.id and c.ref = f.class
    -- Those that begin later are counted after what is counted now.
    cross join lateral (
      select coalesce(f.before_micros, case when f.class = ${PLAIN_CLASS} then b.total_micros else c.begun_micros end
        + (select coalesce(sum(o.amount_micros), 0) from grants o
           where o.billing_id = b.id and o.class = f.class and o.before_micros is null and o.voided_at is null
             and (o.begins_at, o.id) < (f.begins_at, f.id))) as micros) place
    cross join lateral (
      select coalesce(sum(v.amount_micros), 0) as micros from grants v
      where v.billing_id = b.id and v.class = f.class and v.voided_at is not null and v.before_micros < place.micros) voided
    order by f.id`;
}

/** The account with what the books have of classes of these grants that it has forgotten. */
export async function withForgotten(
  stores: { sql: Query; books: Books },
  account: RecordAccount,
  rows: readonly GrantRow[],
): Promise<RecordAccount> {
  const { state, balance } = account;
  const known = new Set([...state.classes, ...state.ended].map(({ number }) => number));
  const numbers = rows
    .filter((row) => row.voidedAt !== null || endOf(row) <= balance.atMs)
    .map((row) => row.voidNumber ?? row.number);
  if (numbers.every((number) => known.has(number))) return account;
  const booked = await readBooked(stores, [{ ...balance.billing, counted: balance }]);
  return { ...account, forgotten: booked.get(balance.billing.id)!.classes };
}

/** Reads grants of a record by pages, and presents them by its account and, where it has forgotten one, by the books. */
export async function grantReader(
  { redis, ...stores }: { sql: Query; redis: ShardedRedis; books: Books },
  record: Parameters<typeof readAccount>[1],
) {
  let account = await readAccount(redis, record);
  return {
    async read(after: string, take: number): Promise<GrantRow[]> {
      const rows = await grantRows(stores.sql, record.id, { after, take });
      account = await withForgotten(stores, account, rows);
      return rows;
    },
    present: (row: GrantRow) => grantPresenter(account)(row),
  };
}
