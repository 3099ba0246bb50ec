import { setTimeout as sleep } from 'node:timers/promises';
import { readBalances, type Balance } from './balances.ts';
import type { BillingRef } from './billing-refs.ts';
import { lastBalance, lateUsage, readBookedEpochs, sum, type BookedEpoch } from './booked-epochs.ts';
import { grantOfOpenShards, settle } from './settle.ts';
import type { Books } from '../stores/clickhouse.ts';
import { booksWatermark } from '../events/watermark.ts';
import { findMissingNumbers, type MissingNumbers } from './missing-numbers.ts';
import type { Query } from '../stores/postgres.ts';
import type { ShardedRedis } from '../stores/redis.ts';

/** The result of comparing a billing record's balance with its books. */
export type Reconciliation = {
  billing: BillingRef;
  /** The books have as much as Redis, less, or more; or the events that they lack are still on their way. */
  status: 'EXACT' | 'MISSING' | 'TOO_MUCH' | 'ON_ITS_WAY';
  usedMicros: number;
  bookedMicros: number;
  lastMicros: number;
  /** Used credits that the books lack; negative when they have too many. */
  differenceMicros: number;
  /** Sequence numbers up to the last one that Redis has, which the books lack. */
  missing: MissingNumbers[];
  /** Sequence numbers that neither has: usage that was lost with a Redis. */
  losses: MissingNumbers[];
};

export type Stores = { sql: Query; redis: ShardedRedis; books: Books };

const LOOK_EVERY_MS = 250;

/**
 * Compares the balances of some records in Redis with the sum of their distinct events, the last balance in the books and
 * the sequence numbers of the events. Traffic may go on: a balance is compared with the events up to its own last one. Where it
 * differs, it is compared again once the books hold all events from before it was read, or after `patienceMs`.
 */
export async function reconcile(stores: Stores, billings: BillingRef[], patienceMs: number): Promise<Reconciliation[]> {
  const { sql, redis } = stores;
  const until = performance.now() + patienceMs;
  const first = await compare(stores, await readSettled(stores, billings));
  const differing = first.filter(({ result }) => result.status !== 'EXACT' || result.losses.length > 0);
  if (differing.length === 0) return first.map(({ result }) => result);

  const readMs = Math.max(...differing.map(({ balance }) => balance.atMs));
  while ((await booksWatermark(sql)) <= readMs && performance.now() < until) await sleep(LOOK_EVERY_MS);
  const arrived = (await booksWatermark(sql)) > readMs;
  const balances = differing.map(({ balance }) => balance);
  // Events that arrived late meanwhile are in the books and not yet in these balances.
  const { changed: late } = await settle(stores, balances, grantOfOpenShards(redis, balances));
  const settledIds = new Set(late.map(({ billing }) => billing.id));
  const fresh = await readBalances(
    redis,
    late.map(({ billing }) => billing),
  );
  const again = await compare(stores, [...balances.filter(({ billing }) => !settledIds.has(billing.id)), ...fresh]);
  const second = new Map(again.map(({ balance, result }) => [balance.billing.id, result]));
  return first.map(({ balance, result }) => {
    const final = second.get(balance.billing.id) ?? result;
    const undecided =
      (second.has(balance.billing.id) && !arrived) || (final.status !== 'EXACT' && settledIds.has(balance.billing.id));
    return undecided ? { ...final, status: 'ON_ITS_WAY' } : final;
  });
}

/** Reads balances, after settling those that lack what the books have. */
async function readSettled(stores: Stores, billings: BillingRef[]): Promise<Balance[]> {
  const { redis } = stores;
  const balances = await readBalances(redis, billings);
  const { changed } = await settle(stores, balances, grantOfOpenShards(redis, balances));
  if (changed.length === 0) return balances;
  const ids = new Set(changed.map(({ billing }) => billing.id));
  const fresh = await readBalances(
    redis,
    changed.map(({ billing }) => billing),
  );
  return [...balances.filter(({ billing }) => !ids.has(billing.id)), ...fresh];
}

async function compare(
  { books }: Stores,
  balances: Balance[],
): Promise<{ balance: Balance; result: Reconciliation }[]> {
  const epochs = await readBookedEpochs(books, balances);
  const compared = balances.map((balance) => compareOne(balance, epochs.get(balance.billing.id) ?? []));
  const incomplete = compared.filter(({ incomplete }) => incomplete).map(({ balance }) => balance);
  const found = await findMissingNumbers(books, incomplete);
  return compared.map(({ balance, result }) => {
    const isKnown = ({ epoch, afterSequence }: MissingNumbers) => afterSequence < (balance.sequences.get(epoch) ?? 0);
    // Higher sequence numbers of this epoch belong to events from after the balance was read.
    const all = (found.get(balance.billing.id) ?? []).filter((one) => one.epoch < balance.epoch || isKnown(one));
    return { balance, result: { ...result, missing: all.filter(isKnown), losses: all.filter((one) => !isKnown(one)) } };
  });
}

function compareOne(balance: Balance, epochs: BookedEpoch[]) {
  const inBooks = new Map(epochs.map((one) => [one.epoch, one]));
  const known = epochs.flatMap((one) => one.adjustments).filter(({ number }) => number <= balance.adjustment);
  const bookedMicros = sum([
    ...epochs.map((one) => one.ownMicros + one.lateMicros),
    ...known.map(({ micros }) => micros),
  ]);
  // Late events from after the balance was read are not in it yet. That is no difference.
  const late = lateUsage(balance, epochs);
  const notTakenOver = late.events > balance.lateEvents ? late.micros - balance.lateMicros : 0;
  const differenceMicros = balance.usedMicros + notTakenOver - bookedMicros;
  const sequencesMissing = [...balance.sequences].some(
    ([epoch, last]) => (inBooks.get(epoch)?.ownSequences ?? 0) !== last,
  );
  const adjustmentsMissing = new Set(known.map(({ number }) => number)).size !== balance.adjustment;
  const lastMicros = lastBalance(epochs) ?? 0;
  const complete = !sequencesMissing && !adjustmentsMissing;
  const exact = complete && differenceMicros === 0 && (lastMicros === balance.usedMicros || notTakenOver !== 0);
  const result: Reconciliation = {
    billing: balance.billing,
    status: exact ? 'EXACT' : differenceMicros < 0 ? 'TOO_MUCH' : 'MISSING',
    usedMicros: balance.usedMicros,
    bookedMicros,
    lastMicros,
    differenceMicros,
    missing: [],
    losses: [],
  };
  const incomplete = sequencesMissing || epochs.some((one) => one.sequences < one.lastSequence);
  return { balance, result, incomplete };
}

/** Stores the losses of records that are exact otherwise, and gives those that are new. */
export async function storeLosses(
  sql: Query,
  results: Reconciliation[],
): Promise<{ billing: BillingRef; loss: MissingNumbers }[]> {
  const found = results
    .filter(({ status }) => status === 'EXACT')
    .flatMap(({ billing, losses }) => losses.map((loss) => ({ billing, loss })));
  const isNew = await Promise.all(
    found.map(async ({ billing, loss }) => {
      const { epoch, afterSequence, events, micros } = loss;
      const rows = await sql`
        insert into usage_losses as known (billing_id, epoch, after_seq, events, amount_micros)
        values (${billing.id}, ${epoch}, ${afterSequence}, ${events}, ${micros ?? 0})
        on conflict (billing_id, epoch, after_seq) do update
        set events = excluded.events, amount_micros = excluded.amount_micros, found_at = now()
        where known.events < excluded.events
        returning true`;
      return rows.length > 0;
    }),
  );
  return found.filter((_, i) => isNew[i]);
}
