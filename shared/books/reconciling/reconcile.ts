import { readBalances, type Balance } from '../balances.ts';
import type { BillingRef } from '../billing-refs.ts';
import { readBilled } from './billed.ts';
import { behindBooks, countedEarlier, readBooked, sum, type BookedRecord } from '../sums/booked-records.ts';
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

  const readMs = Math.max(...differing.map(({ balance }) => balance.atMs));
  while ((await booksWatermark(sql)) <= readMs && clock.monotonic() < until) await clock.sleep(LOOK_EVERY_MS, signal);
  const arrived = (await booksWatermark(sql)) > readMs;
  const balances = differing.map(({ balance }) => balance);
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

type Compared = { balance: Balance; result: Reconciliation; ahead: boolean };

async function compare(stores: Stores, balances: Balance[]): Promise<Compared[]> {
  const { books } = stores;
  const booked = await readBooked(stores, balances);
  const asked = balances.flatMap((balance): Suspect[] => {
    const record = booked.get(balance.billing.id);
    return record ? [{ balance, booked: record }] : [];
  });
  const billed = await readBilled(
    books,
    asked.map(({ balance: { billing }, booked: { openDays } }) => ({
      id: billing.id,
      workspaceId: billing.workspaceId,
      openDays,
    })),
  );
  const compared = asked.map((one) => ({ ...one, ...compareOne(one, billed.get(one.balance.billing.id) ?? 0) }));
  const incomplete = compared.filter((one) => one.incomplete);
  const known = await readKnownLosses(
    stores.sql,
    incomplete.map(({ balance }) => balance.billing.id),
  );
  const isExplained = (one: (typeof compared)[number]) => explains(known.get(one.balance.billing.id) ?? [], one);
  const found = await findMissingNumbers(
    books,
    incomplete.filter((one) => !isExplained(one)),
  );
  const proofs = await proveGrants(stores.sql, asked);
  return compared.map((one) => {
    const { balance, ahead } = one;
    const result = withGrants(one.result, proofs.get(balance.billing.id));
    if (one.incomplete && isExplained(one))
      return { balance, result: { ...result, losses: known.get(balance.billing.id)!, lossesKnown: true }, ahead };
    const isKnown = ({ epoch, afterSequence }: MissingNumbers) => afterSequence < (balance.sequences.get(epoch) ?? 0);
    // Higher sequence numbers of this epoch belong to events from after the balance was read.
    const all = (found.get(balance.billing.id) ?? []).filter((one) => one.epoch < balance.epoch || isKnown(one));
    const [missing, losses] = [all.filter(isKnown), all.filter((one) => !isKnown(one))];
    return { balance, result: { ...result, missing, losses, lossesKnown: losses.length === 0 }, ahead };
  });
}

function compareOne({ balance, booked }: Suspect, billedOnClosedDays: number) {
  const { epochs, adjustments } = booked;
  const bookedMicros =
    sum(epochs.map(({ own, ahead }) => own.micros + ahead.micros)) + adjustments.own.micros + adjustments.ahead.micros;
  const billedMicros = bookedMicros + billedOnClosedDays - booked.closedMicros;
  const differenceMicros = balance.usedMicros - bookedMicros || bookedMicros - billedMicros;
  const isBehind = behindBooks(balance, booked) > 0;
  const [known, numbers] = [numbersOf(balance), sum(epochs.map(({ own }) => own.numbers))];
  const sequencesMissing = numbers < known;
  const complete = numbers === known && adjustments.own.numbers === balance.adjustment;
  const ahead = epochs.some((one) => one.ahead.numbers > 0);
  const lastMicros = booked.lastMicros ?? 0;
  const held = compareHeld({ balance, booked });
  const same = differenceMicros === 0 && held.heldDifferenceMicros === 0;
  const exact = complete && !ahead && same && lastMicros === balance.usedMicros;
  const tooMuch =
    ahead || differenceMicros < 0 || (complete && differenceMicros === 0 && held.heldDifferenceMicros < 0);
  const result: Reconciliation = {
    billing: balance.billing,
    status: exact ? 'EXACT' : tooMuch ? 'TOO_MUCH' : 'MISSING',
    usedMicros: balance.usedMicros,
    bookedMicros,
    billedMicros,
    lastMicros,
    lastAdjustment: balance.adjustment,
    differenceMicros,
    ...held,
    missing: [],
    losses: [],
    lossesKnown: true,
    isBehind,
  };
  const incomplete = sequencesMissing || epochs.some(lacksNumbers);
  return { result, incomplete, ahead };
}

/** A record whose account does not agree with its grants is not exact. */
function withGrants(result: Reconciliation, grants: GrantProof | undefined): Reconciliation {
  if (!grants) return result;
  const { differenceMicros } = grants;
  const differs = result.status === 'EXACT' && differenceMicros !== 0;
  return { ...result, grants, ...(differs && { status: differenceMicros > 0 ? 'MISSING' : 'TOO_MUCH' }) };
}

/** How many lines of the books a balance has counted. */
function numbersOf(balance: Balance): number {
  return countedEarlier(balance) + (balance.sequences.get(balance.epoch) ?? 0);
}

function compareHeld({ balance, booked }: Suspect) {
  const { heldMicros = 0 } = balance;
  const bookedHeldMicros = sum(booked.epochs.map(({ own, ahead }) => own.heldMicros + ahead.heldMicros));
  return {
    heldMicros,
    bookedHeldMicros,
    heldDifferenceMicros: heldMicros - bookedHeldMicros || heldMicros - booked.lastHeldMicros,
  };
}

function lacksNumbers(epoch: BookedRecord['epochs'][number]): boolean {
  return lackingNumbers(epoch) > 0;
}

function lackingNumbers({ own, lastNumber }: BookedRecord['epochs'][number]): number {
  return Math.max(0, lastNumber - own.numbers);
}

/** Whether known losses are all that an exact record lacks: in each epoch before the shard's as many numbers as are missing. */
function explains(
  losses: MissingNumbers[],
  { balance, booked, result }: Suspect & { result: Reconciliation },
): boolean {
  if (result.status !== 'EXACT' || losses.length === 0) return false;
  const known = Map.groupBy(losses, ({ epoch }) => epoch);
  const before = booked.epochs.filter(({ epoch }) => epoch < balance.epoch);
  const inBooks = new Set(before.map(({ epoch }) => epoch));
  const eventsOf = (epoch: number) => sum((known.get(epoch) ?? []).map(({ events }) => events));
  return (
    losses.every(({ epoch }) => inBooks.has(epoch)) &&
    before.every((one) => lackingNumbers(one) === eventsOf(one.epoch))
  );
}
