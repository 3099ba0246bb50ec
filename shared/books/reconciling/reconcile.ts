import { readBalances, type Balance } from '../balances.ts';
import type { BillingRef } from '../billing-refs.ts';
import { wronglyBilledDays, type WrongDay } from './billed.ts';
import { behindBooks, compareSums, readBooked, showsAnother, sum, type BookedRecord } from '../sums/booked.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { booksWatermark } from '../../events/watermark.ts';
import { proveGrants, type GrantProof } from './grant-proof.ts';
import { findMissingNumbers, type MissingNumbers } from './missing-numbers.ts';
import type { Query } from '../../stores/postgres.ts';
import type { ShardedRedis } from '../../stores/redis.ts';

/** The result of comparing a billing record's balance with its books. */
export type Reconciliation = {
  billing: BillingRef;
  /**
   * The books have as much as Redis, less, or more; or the events that they lack are still on their way, or Redis lacks some of theirs
   * and is to be rebuilt.
   */
  status: 'EXACT' | 'MISSING' | 'TOO_MUCH' | 'ON_ITS_WAY';
  usedMicros: number;
  bookedMicros: number;
  /** What `/usage` bills for the events that `bookedMicros` sums. */
  billedMicros: number;
  /** The days that are over for which it bills another sum. */
  wrongDays: WrongDay[];
  lastMicros: number;
  /** The number of the last adjustment that Redis has. */
  lastAdjustment: number;
  /** Used credits that the books lack, or else that `/usage` does not bill; negative when there are too many. */
  differenceMicros: number;
  heldMicros: number;
  /** Reserved credits as the lines of the books add up to them. */
  bookedHeldMicros: number;
  /** Reserved credits that the lines lack, or else that the last one does not tell; negative when there are too many. */
  heldDifferenceMicros: number;
  /** Of an account that can be compared with its grants now. */
  grants?: GrantProof;
  /** Sequence numbers up to the last one that Redis has, which the books lack. */
  missing: MissingNumbers[];
  /** Sequence numbers that neither has: usage that was lost with a Redis. */
  losses: MissingNumbers[];
};

export type Stores = { sql: Query; redis: ShardedRedis; books: Books };

const LOOK_EVERY_MS = 250;

/**
 * Compares the balances of some records in Redis, used and reserved, with the sum of their distinct events, what `/usage`
 * bills, the last balance in the books and the sequence numbers of the events. Traffic may go on: a balance is compared with the events up
 * to its own last one. Where it differs, or numbers are missing, it is compared again once the books hold all events from before it was
 * read, or after `patienceMs`. Throws once `signal` is aborted.
 */
export async function reconcile(
  stores: Stores,
  billings: BillingRef[],
  patienceMs: number,
  signal?: AbortSignal,
): Promise<Reconciliation[]> {
  const { sql, redis, books } = stores;
  const { clock } = redis;
  const until = clock.monotonic() + patienceMs;
  const first = await compare(stores, await readBalances(redis, billings));
  const differing = first.filter(({ result, lacksNumbers }) => result.status !== 'EXACT' || lacksNumbers);
  if (differing.length === 0) return first.map(({ result }) => result);

  const balances = differing.map(({ balance }) => balance);
  const readMs = Math.max(...balances.map(({ atMs }) => atMs));
  while ((await booksWatermark(sql)) <= readMs && clock.monotonic() < until) await clock.sleep(LOOK_EVERY_MS, signal);
  const arrived = (await booksWatermark(sql)) > readMs;
  const second = new Map<string, Reconciliation>();
  for (const { balance, booked, result, lacksNumbers } of await compare(stores, balances)) {
    const { epoch, sequences } = balance;
    const gaps = lacksNumbers ? await findMissingNumbers(books, balance, booked) : [];
    const isInRedis = (gap: MissingNumbers) => gap.afterSequence < (sequences.get(gap.epoch) ?? 0);
    result.missing = gaps.filter(isInRedis);
    // Higher sequence numbers of this epoch belong to events from after the balance was read.
    result.losses = gaps.filter((gap) => gap.epoch < epoch && !isInRedis(gap));
    if (!arrived || behindBooks(balance, booked) > 0 || showsAnother(balance, booked)) result.status = 'ON_ITS_WAY';
    second.set(balance.billing.id, result);
  }
  return first.map(({ result }) => second.get(result.billing.id) ?? result);
}

type Compared = {
  balance: Balance;
  booked: BookedRecord;
  result: Reconciliation;
  /** Numbers are missing in the books. */
  lacksNumbers: boolean;
};

async function compare(stores: Stores, balances: Balance[]): Promise<Compared[]> {
  const booked = await readBooked(
    stores,
    balances.map((balance) => ({ ...balance.billing, counted: balance })),
  );
  const asked = balances.map((balance) => ({ balance, booked: booked.get(balance.billing.id)! }));
  const wrong = await wronglyBilledDays(
    stores.books,
    asked.map(({ balance: { billing }, booked: { openDays } }) => ({ ...billing, openDays })),
  );
  const proofs = await proveGrants(stores.sql, asked);
  return asked.map((one) => {
    const { id } = one.balance.billing;
    return compareOne(one, wrong.get(id) ?? [], proofs.get(id));
  });
}

function compareOne(
  { balance, booked }: Pick<Compared, 'balance' | 'booked'>,
  wrongDays: WrongDay[],
  grants: GrantProof | undefined,
): Compared {
  const { usedMicros, heldMicros = 0 } = balance;
  const { bookedMicros, bookedHeldMicros, lacksLines, isComplete, isAhead } = compareSums(balance, booked);
  const billedMicros = bookedMicros + sum(wrongDays.map(({ micros }) => micros));
  const differenceMicros = usedMicros - bookedMicros || bookedMicros - billedMicros;
  const heldDifferenceMicros = heldMicros - bookedHeldMicros || heldMicros - booked.lastHeldMicros;
  const lastMicros = booked.lastMicros ?? 0;
  const isSame = differenceMicros === 0 && heldDifferenceMicros === 0;
  const isExact = isComplete && !isAhead && isSame && lastMicros === usedMicros;
  const isTooMuch =
    isAhead || differenceMicros < 0 || (isComplete && differenceMicros === 0 && heldDifferenceMicros < 0);
  const isOfGrants = isExact && grants !== undefined && grants.differenceMicros !== 0;
  const hasMore = isOfGrants ? grants.differenceMicros < 0 : isTooMuch;
  const result: Reconciliation = {
    billing: balance.billing,
    status: isExact && !isOfGrants ? 'EXACT' : hasMore ? 'TOO_MUCH' : 'MISSING',
    usedMicros,
    bookedMicros,
    billedMicros,
    wrongDays,
    lastMicros,
    lastAdjustment: balance.adjustment,
    differenceMicros,
    heldMicros,
    bookedHeldMicros,
    heldDifferenceMicros,
    ...(grants && { grants }),
    missing: [],
    losses: [],
  };
  const lacksNumbers = lacksLines || booked.epochs.some((one) => one.own.numbers < one.lastNumber);
  return { balance, booked, result, lacksNumbers };
}
