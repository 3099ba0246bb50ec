import { setTimeout as sleep } from 'node:timers/promises';
import { readBalances, type Balance } from './balances.ts';
import type { BillingRef } from './billing-refs.ts';
import { readBilled } from './billed.ts';
import { lateUsage, readBooked, sum, type BookedRecord } from './booked-records.ts';
import { grantOfOpenShards, settle } from './settle.ts';
import type { Books } from '../stores/clickhouse.ts';
import { booksWatermark } from '../events/watermark.ts';
import { findMissingNumbers, type MissingNumbers, type Suspect } from './missing-numbers.ts';
import type { Query } from '../stores/postgres.ts';
import type { ShardedRedis } from '../stores/redis.ts';

/** The result of comparing a billing record's balance with its books. */
export type Reconciliation = {
  billing: BillingRef;
  /** The books have as much as Redis, less, or more; or the events that they lack are still on their way. */
  status: 'EXACT' | 'MISSING' | 'TOO_MUCH' | 'ON_ITS_WAY';
  usedMicros: number;
  bookedMicros: number;
  /** What `/usage` bills for the events that `bookedMicros` sums. */
  billedMicros: number;
  lastMicros: number;
  /** Used credits that the books lack, or else that `/usage` does not bill; negative when there are too many. */
  differenceMicros: number;
  /** Sequence numbers up to the last one that Redis has, which the books lack. */
  missing: MissingNumbers[];
  /** Sequence numbers that neither has: usage that was lost with a Redis. */
  losses: MissingNumbers[];
};

export type Stores = { sql: Query; redis: ShardedRedis; books: Books };

const LOOK_EVERY_MS = 250;
const LOSSES_AT_ONCE = 1_000;

/**
 * Compares the balances of some records in Redis with the sum of their distinct events, what `/usage` bills, the last
 * balance in the books and the sequence numbers of the events. Traffic may go on: a balance is compared with the events up
 * to its own last one. Where it differs, it is compared again once the books hold all events from before it was read, or
 * after `patienceMs`.
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
  const { changed: late, failed } = await settle(stores, balances, grantOfOpenShards(redis, balances));
  const unread = new Set(failed.map(({ billing }) => billing.id));
  const settledIds = new Set(late.map(({ billing }) => billing.id));
  const fresh = await readBalances(
    redis,
    late.map(({ billing }) => billing),
  );
  const again = await compare(stores, [
    ...balances.filter(({ billing }) => !settledIds.has(billing.id) && !unread.has(billing.id)),
    ...fresh,
  ]);
  const second = new Map(again.map(({ balance, result }) => [balance.billing.id, result]));
  const surelyAhead = await stillAhead(stores, again);
  return first.map(({ balance: { billing }, result }) => {
    const final = second.get(billing.id) ?? result;
    const undecided =
      (second.has(billing.id) && !arrived) ||
      (final.status !== 'EXACT' && settledIds.has(billing.id)) ||
      surelyAhead.get(billing.id) === false ||
      unread.has(billing.id);
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

/** Reads balances, after settling those that lack what the books have. */
async function readSettled(stores: Stores, billings: BillingRef[]): Promise<Balance[]> {
  const { redis } = stores;
  const balances = await readBalances(redis, billings);
  const { changed, failed } = await settle(stores, balances, grantOfOpenShards(redis, balances));
  // A record whose books can't be read has no result. It must not hold up the others.
  const ids = new Set([...changed, ...failed].map(({ billing }) => billing.id));
  if (ids.size === 0) return balances;
  const fresh = await readBalances(
    redis,
    changed.map(({ billing }) => billing),
  );
  return [...balances.filter(({ billing }) => !ids.has(billing.id)), ...fresh];
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
    asked.map(({ balance, booked: { openDays } }) => ({ id: balance.billing.id, openDays })),
  );
  const compared = asked.map((one) => ({ ...one, ...compareOne(one, billed.get(one.balance.billing.id) ?? 0) }));
  const found = await findMissingNumbers(
    books,
    compared.filter(({ incomplete }) => incomplete),
  );
  return compared.map(({ balance, result, ahead }) => {
    const isKnown = ({ epoch, afterSequence }: MissingNumbers) => afterSequence < (balance.sequences.get(epoch) ?? 0);
    // Higher sequence numbers of this epoch belong to events from after the balance was read.
    const all = (found.get(balance.billing.id) ?? []).filter((one) => one.epoch < balance.epoch || isKnown(one));
    const [missing, losses] = [all.filter(isKnown), all.filter((one) => !isKnown(one))];
    return { balance, result: { ...result, missing, losses }, ahead };
  });
}

function compareOne({ balance, booked }: Suspect, billedOnClosedDays: number) {
  const { epochs, adjustments } = booked;
  const inBooks = new Map(epochs.map((one) => [one.epoch, one]));
  const bookedMicros =
    sum(epochs.map(({ own, late, ahead }) => own.micros + late.micros + ahead.micros)) + adjustments.own.micros;
  const billedMicros = bookedMicros + billedOnClosedDays - booked.closedMicros;
  // Late events from after the balance was read are not in it yet. That is no difference.
  const late = lateUsage(balance, booked);
  const notTakenOver = late.events > balance.lateEvents ? late.micros - balance.lateMicros : 0;
  const lacking = balance.usedMicros + notTakenOver - bookedMicros;
  const differenceMicros = lacking === 0 ? bookedMicros - billedMicros : lacking;
  const sequencesMissing = [...balance.sequences].some(
    ([epoch, last]) => (inBooks.get(epoch)?.own.numbers ?? 0) !== last,
  );
  const complete = !sequencesMissing && adjustments.own.numbers === balance.adjustment;
  const ahead = epochs.some((one) => one.ahead.numbers > 0);
  const lastMicros = booked.lastMicros ?? 0;
  const exact =
    complete && !ahead && differenceMicros === 0 && (lastMicros === balance.usedMicros || notTakenOver !== 0);
  const result: Reconciliation = {
    billing: balance.billing,
    status: exact ? 'EXACT' : differenceMicros < 0 || ahead ? 'TOO_MUCH' : 'MISSING',
    usedMicros: balance.usedMicros,
    bookedMicros,
    billedMicros,
    lastMicros,
    differenceMicros,
    missing: [],
    losses: [],
  };
  const incomplete = sequencesMissing || epochs.some(lacksNumbers);
  return { result, incomplete, ahead };
}

function lacksNumbers({ own, late, lastNumber }: BookedRecord['epochs'][number]): boolean {
  return own.numbers + late.numbers < lastNumber;
}

/** Stores the losses of records that are exact otherwise, and gives those that are new. */
export async function storeLosses(
  sql: Query,
  results: Reconciliation[],
): Promise<{ billing: BillingRef; loss: MissingNumbers }[]> {
  const found = results
    .filter(({ status }) => status === 'EXACT')
    .flatMap(({ billing, losses }) => losses.map((loss) => ({ billing, loss })));
  const known: typeof found = [];
  for (let i = 0; i < found.length; i += LOSSES_AT_ONCE) {
    const some = found.slice(i, i + LOSSES_AT_ONCE);
    const rows = await sql<{ billingId: string; epoch: number; afterSeq: number }[]>`
      insert into usage_losses as known (billing_id, epoch, after_seq, events, amount_micros)
      select * from unnest(${some.map(({ billing }) => billing.id)}::text[], ${some.map(({ loss }) => loss.epoch)}::bigint[],
                           ${some.map(({ loss }) => loss.afterSequence)}::bigint[], ${some.map(({ loss }) => loss.events)}::bigint[],
                           ${some.map(({ loss }) => loss.micros ?? 0)}::bigint[])
      on conflict (billing_id, epoch, after_seq) do update
      set events = excluded.events, amount_micros = excluded.amount_micros, found_at = now()
      where known.events < excluded.events
      returning billing_id, epoch, after_seq`;
    const stored = new Set(rows.map(({ billingId, epoch, afterSeq }) => `${billingId} ${epoch} ${afterSeq}`));
    const isNew = ({ billing, loss }: (typeof found)[number]) =>
      stored.has(`${billing.id} ${loss.epoch} ${loss.afterSequence}`);
    known.push(...some.filter(isNew));
  }
  return known;
}
