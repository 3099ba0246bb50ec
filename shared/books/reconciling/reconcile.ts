import { readBalances, type Balance } from '../balances.ts';
import type { BillingRef } from '../billing-refs.ts';
import { wronglyBilledDays, type WrongDay } from './billed.ts';
import { behindBooks, countedEarlier, readBooked, sum, type BookedRecord } from '../sums/booked.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { booksWatermark } from '../../events/watermark.ts';
import { proveGrants, type GrantProof } from './grant-proof.ts';
import { readKnownLosses } from './known-losses.ts';
import { findMissingNumbers, type MissingNumbers, type Suspect } from './missing-numbers.ts';
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
  /** These losses are known: they were found and stored before. */
  lossesKnown: boolean;
  /** The books have lines that its balance has not counted. */
  isBehind: boolean;
};

export type Stores = { sql: Query; redis: ShardedRedis; books: Books };

const LOOK_EVERY_MS = 250;

/**
 * Compares the balances of some records in Redis, used and reserved, with the sum of their distinct events, what `/usage`
 * bills, the last balance in the books and the sequence numbers of the events. Traffic may go on: a balance is compared with the events up
 * to its own last one. Where it differs, it is compared again once the books hold all events from before it was read, or
 * after `patienceMs`. Throws once `signal` is aborted.
 */
export async function reconcile(
  stores: Stores,
  billings: BillingRef[],
  patienceMs: number,
  signal?: AbortSignal,
): Promise<Reconciliation[]> {
  const { sql, redis } = stores;
  const { clock } = redis;
  const until = clock.monotonic() + patienceMs;
  const first = await compare(stores, await readBalances(redis, billings));
  const differing = first.filter(({ result }) => result.status !== 'EXACT' || !result.lossesKnown);
  if (differing.length === 0) return first.map(({ result }) => result);

  const balances = differing.map(({ balance }) => balance);
  const readMs = Math.max(...balances.map(({ atMs }) => atMs));
  while ((await booksWatermark(sql)) <= readMs && clock.monotonic() < until) await clock.sleep(LOOK_EVERY_MS, signal);
  const arrived = (await booksWatermark(sql)) > readMs;
  const again = await compare(stores, balances);
  const second = new Map(again.map(({ balance, result }) => [balance.billing.id, result]));
  const surelyAhead = await stillAhead(stores, again);
  return first.map(({ balance: { billing }, result }) => {
    const final = second.get(billing.id) ?? result;
    const undecided = (second.has(billing.id) && !arrived) || final.isBehind || surelyAhead.get(billing.id) === false;
    return undecided ? { ...final, status: 'ON_ITS_WAY' } : final;
  });
}

/**
 * Looks once more at records of which the books have events that Redis should have counted; gives by record whether that
 * is so still. Redis's clock may have gone back, or the shard may have been reopened, between the two readings.
 */
async function stillAhead(stores: Stores, compared: Compared[]): Promise<Map<string, boolean>> {
  const ahead = compared.filter((one) => one.ahead).map(({ balance }) => balance.billing);
  if (ahead.length === 0) return new Map();
  const again = await compare(stores, await readBalances(stores.redis, ahead));
  return new Map(again.map((one) => [one.balance.billing.id, one.ahead]));
}

type Compared = Suspect & {
  result: Reconciliation;
  /** Its sums are those of Redis; its grants are compared by themselves. */
  isExact: boolean;
  /** The books lack numbers. */
  isIncomplete: boolean;
  /** The books have events that Redis should have counted. */
  ahead: boolean;
};

async function compare(stores: Stores, balances: Balance[]): Promise<Compared[]> {
  const { sql, books } = stores;
  const booked = await readBooked(
    stores,
    balances.map((balance) => ({ ...balance.billing, counted: balance })),
  );
  const asked = balances.map((balance) => ({ balance, booked: booked.get(balance.billing.id)! }));
  const wrong = await wronglyBilledDays(
    books,
    asked.map(({ balance: { billing }, booked: { openDays } }) => ({ ...billing, openDays })),
  );
  const proofs = await proveGrants(sql, asked);
  const compared = asked.map((one) => {
    const { id } = one.balance.billing;
    return compareOne(one, wrong.get(id) ?? [], proofs.get(id));
  });
  const incomplete = compared.filter((one) => one.isIncomplete);
  const known = await readKnownLosses(
    sql,
    incomplete.map(({ balance }) => balance.billing.id),
  );
  const explained = new Set(incomplete.filter((one) => explains(known.get(one.balance.billing.id) ?? [], one)));
  const found = await findMissingNumbers(
    books,
    incomplete.filter((one) => !explained.has(one)),
  );
  for (const one of compared) {
    const { balance, result } = one;
    const { id } = balance.billing;
    if (explained.has(one)) {
      result.losses = known.get(id)!;
      continue;
    }
    const isKnown = ({ epoch, afterSequence }: MissingNumbers) => afterSequence < (balance.sequences.get(epoch) ?? 0);
    // Higher sequence numbers of this epoch belong to events from after the balance was read.
    const all = (found.get(id) ?? []).filter((gap) => gap.epoch < balance.epoch || isKnown(gap));
    result.missing = all.filter(isKnown);
    result.losses = all.filter((gap) => !isKnown(gap));
    result.lossesKnown = result.losses.length === 0;
  }
  return compared;
}

function compareOne(suspect: Suspect, wrongDays: WrongDay[], grants: GrantProof | undefined): Compared {
  const { balance, booked } = suspect;
  const { epochs, adjustments } = booked;
  const { usedMicros, heldMicros = 0 } = balance;
  const lines = [...epochs, adjustments].flatMap(({ own, ahead }) => [own, ahead]);
  const bookedMicros = sum(lines.map(({ micros }) => micros));
  const bookedHeldMicros = sum(lines.map((line) => line.heldMicros));
  const billedMicros = bookedMicros + sum(wrongDays.map(({ micros }) => micros));
  const differenceMicros = usedMicros - bookedMicros || bookedMicros - billedMicros;
  const heldDifferenceMicros = heldMicros - bookedHeldMicros || heldMicros - booked.lastHeldMicros;
  const lastMicros = booked.lastMicros ?? 0;
  const counted = countedEarlier(balance) + (balance.sequences.get(balance.epoch) ?? 0);
  const numbers = sum(epochs.map(({ own }) => own.numbers));
  const isComplete = numbers === counted && adjustments.own.numbers === balance.adjustment;
  const ahead = epochs.some((one) => one.ahead.numbers > 0);
  const isSame = differenceMicros === 0 && heldDifferenceMicros === 0;
  const isExact = isComplete && !ahead && isSame && lastMicros === usedMicros;
  const isTooMuch = ahead || differenceMicros < 0 || (isComplete && differenceMicros === 0 && heldDifferenceMicros < 0);
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
    lossesKnown: true,
    isBehind: behindBooks(balance, booked) > 0,
  };
  const isIncomplete = numbers < counted || epochs.some((epoch) => lackingNumbers(epoch) > 0);
  return { ...suspect, result, isExact, isIncomplete, ahead };
}

function lackingNumbers({ own, lastNumber }: BookedRecord['epochs'][number]): number {
  return Math.max(0, lastNumber - own.numbers);
}

/** Whether known losses are all that an exact record lacks: in each epoch before the shard's as many numbers as are missing. */
function explains(losses: MissingNumbers[], { balance, booked, isExact }: Compared): boolean {
  if (!isExact || losses.length === 0) return false;
  const known = Map.groupBy(losses, ({ epoch }) => epoch);
  const before = booked.epochs.filter(({ epoch }) => epoch < balance.epoch);
  const eventsOf = (epoch: number) => sum((known.get(epoch) ?? []).map(({ events }) => events));
  return (
    [...known.keys()].every((epoch) => before.some((one) => one.epoch === epoch)) &&
    before.every((one) => lackingNumbers(one) === eventsOf(one.epoch))
  );
}
