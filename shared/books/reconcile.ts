import { setTimeout as sleep } from 'node:timers/promises';
import {
  lastBalance,
  lateOf,
  readBalances,
  readBooks,
  grantOfOpenShards,
  settle,
  sum,
  type Balance,
  type EpochInBooks,
  type BillingRef,
} from './balances.ts';
import type { Books } from '../stores/clickhouse.ts';
import { booksWatermark } from '../events/watermark.ts';
import { findMissingNumbers, type MissingNumbers } from './missing-numbers.ts';
import type { Query } from '../stores/postgres.ts';
import type { ShardedRedis } from '../stores/redis.ts';

/** What comparing a billing record's balances came to. */
export type Reconciliation = {
  place: BillingRef;
  /** The books have everything, less, or more than Redis; or what they lack is on its way to them still. */
  status: 'EXACT' | 'MISSING' | 'TOO_MUCH' | 'ON_ITS_WAY';
  usedMicros: number;
  bookedMicros: number;
  lastMicros: number;
  /** Used credits that the books do not have, or have too much of (negative). */
  differenceMicros: number;
  /** Between which events numbers are missing. */
  gaps: MissingNumbers[];
  /** Gaps of which the balance holds nothing: usage that went down with a Redis. */
  losses: MissingNumbers[];
};

export type Stores = { sql: Query; redis: ShardedRedis; books: Books };

const LOOK_EVERY_MS = 250;

/**
 * Compares, for some records, Redis's balance with the sum of distinct events, the last balance in the books and the
 * numbers of events. Events may be on their way meanwhile: a balance is judged by the events up to its own numbers, once
 * the books have all that happened before it was read, or `patienceMs` have passed.
 */
export async function reconcile(stores: Stores, places: BillingRef[], patienceMs: number): Promise<Reconciliation[]> {
  const { sql, redis, books } = stores;
  const until = performance.now() + patienceMs;
  const first = await compare(stores, await settled(stores, places));
  const unlike = first.filter(({ result }) => result.status !== 'EXACT' || result.losses.length > 0);
  if (unlike.length === 0) return first.map(({ result }) => result);

  const readMs = Math.max(...unlike.map(({ balance }) => balance.atMs));
  while ((await booksWatermark(sql)) <= readMs && performance.now() < until) await sleep(LOOK_EVERY_MS);
  const arrived = (await booksWatermark(sql)) > readMs;
  const balances = unlike.map(({ balance }) => balance);
  // What came late meanwhile is in the books now, and not in a balance of before.
  const late = await settle(redis, books, balances, grantOfOpenShards(redis, balances));
  const settledIds = new Set(late.map(({ place }) => place.id));
  const fresh = await readBalances(
    redis,
    late.map(({ place }) => place),
  );
  const again = await compare(stores, [...balances.filter(({ place }) => !settledIds.has(place.id)), ...fresh]);
  const second = new Map(again.map(({ balance, result }) => [balance.place.id, result]));
  return first.map(({ balance, result }) => {
    const final = second.get(balance.place.id) ?? result;
    const undecided =
      (second.has(balance.place.id) && !arrived) || (final.status !== 'EXACT' && settledIds.has(balance.place.id));
    return undecided ? { ...final, status: 'ON_ITS_WAY' } : final;
  });
}

/** Balances as Redis has them; those that lack what the books have are set first. */
async function settled({ redis, books }: Stores, places: BillingRef[]): Promise<Balance[]> {
  const balances = await readBalances(redis, places);
  const changed = await settle(redis, books, balances, grantOfOpenShards(redis, balances));
  if (changed.length === 0) return balances;
  const ids = new Set(changed.map(({ place }) => place.id));
  const fresh = await readBalances(
    redis,
    changed.map(({ place }) => place),
  );
  return [...balances.filter(({ place }) => !ids.has(place.id)), ...fresh];
}

async function compare(
  { books }: Stores,
  balances: Balance[],
): Promise<{ balance: Balance; result: Reconciliation }[]> {
  const epochs = await readBooks(books, balances);
  const compared = balances.map((balance) => compareOne(balance, epochs.get(balance.place.id) ?? []));
  const holed = compared.filter(({ holed }) => holed).map(({ balance }) => balance);
  const gaps = await findMissingNumbers(books, holed);
  return compared.map(({ balance, result }) => {
    const own = (gap: MissingNumbers) => gap.afterNumber < (balance.numbers.get(gap.epoch) ?? 0);
    // What the books have of this epoch that the balance does not know of came after it was read.
    const all = (gaps.get(balance.place.id) ?? []).filter((gap) => gap.epoch < balance.epoch || own(gap));
    return { balance, result: { ...result, gaps: all.filter(own), losses: all.filter((gap) => !own(gap)) } };
  });
}

function compareOne(balance: Balance, epochs: EpochInBooks[]) {
  const inBooks = new Map(epochs.map((one) => [one.epoch, one]));
  const known = epochs.flatMap((one) => one.adjustments).filter(({ number }) => number <= balance.adjustment);
  const bookedMicros = sum([
    ...epochs.map((one) => one.ownMicros + one.lateMicros),
    ...known.map(({ micros }) => micros),
  ]);
  // What of the late part came after the balance was read is no difference, but not taken over yet.
  const late = lateOf(balance, epochs);
  const notTakenOver = late.events > balance.lateEvents ? late.micros - balance.lateMicros : 0;
  const differenceMicros = balance.usedMicros + notTakenOver - bookedMicros;
  const numbersMissing = [...balance.numbers].some(([epoch, last]) => (inBooks.get(epoch)?.ownNumbers ?? 0) !== last);
  const adjustmentsMissing = new Set(known.map(({ number }) => number)).size !== balance.adjustment;
  const lastMicros = lastBalance(epochs) ?? 0;
  const complete = !numbersMissing && !adjustmentsMissing;
  const exact = complete && differenceMicros === 0 && (lastMicros === balance.usedMicros || notTakenOver !== 0);
  const result: Reconciliation = {
    place: balance.place,
    status: exact ? 'EXACT' : differenceMicros < 0 ? 'TOO_MUCH' : 'MISSING',
    usedMicros: balance.usedMicros,
    bookedMicros,
    lastMicros,
    differenceMicros,
    gaps: [],
    losses: [],
  };
  const holed = numbersMissing || epochs.some((one) => one.numbers < one.lastNumber);
  return { balance, result, holed };
}

/** Notes losses of records that are exact otherwise; gives those that nobody was told of yet. */
export async function tellLosses(
  sql: Query,
  results: Reconciliation[],
): Promise<{ place: BillingRef; loss: MissingNumbers }[]> {
  const found = results
    .filter(({ status }) => status === 'EXACT')
    .flatMap(({ place, losses }) => losses.map((loss) => ({ place, loss })));
  const told = await Promise.all(
    found.map(async ({ place, loss }) => {
      const { epoch, afterNumber, events, micros } = loss;
      const rows = await sql`
        insert into usage_losses as known (billing_id, epoch, after_seq, events, amount_micros)
        values (${place.id}, ${epoch}, ${afterNumber}, ${events}, ${micros ?? 0})
        on conflict (billing_id, epoch, after_seq) do update
        set events = excluded.events, amount_micros = excluded.amount_micros, found_at = now()
        where known.events < excluded.events
        returning true`;
      return rows.length > 0;
    }),
  );
  return found.filter((_, i) => told[i]);
}
