import { booksWatermark } from '../../events/watermark.ts';
import { HOUR_MS } from '../../values/meter-kinds.ts';
import { dateOf, DAY_MS, periodsOf } from '../../values/periods.ts';
import { meterColumns } from '../../stores/meters.ts';
import { allowWorkspace, type AllowedWorkspace } from '../usage/allowed-workspace.ts';
import { readUsage, type UsageStores } from '../usage/query.ts';
import type { MeterDestination } from './plan.ts';

/** What a month comes to at a destination, in micro-units of what it measures. */
export type MeterProof = {
  status: 'EXACT' | 'PENDING' | 'DIFFERENT';
  fromMs: number;
  toMs: number;
  /** By the books. */
  usage: bigint;
  leftOut: bigint;
  /** Carried on from this month, less what was carried to it. */
  rests: bigint;
  waiting: bigint;
  failed: bigint;
  sent: bigint;
  /** What the books have more than was planned. */
  difference: bigint;
};

/**
 * Proves a month (UTC) of a destination: what the books have of its closed hours is what was sent, waits, failed, was left out, or is carried
 * on. Events that wait, or may have to be planned, leave it pending.
 */
export async function proveMeter(
  stores: UsageStores,
  destination: MeterDestination,
  asked: { month: string; workspace: AllowedWorkspace; nowMs: number },
): Promise<MeterProof> {
  const proof = await compare(stores, destination, asked);
  // What was noted and planned between two of its looks differs once, and not again.
  return proof.status === 'DIFFERENT' ? compare(stores, destination, asked) : proof;
}

async function compare(
  stores: UsageStores,
  { id, measure, startsAt }: MeterDestination,
  { month, workspace, nowMs }: { month: string; workspace: AllowedWorkspace; nowMs: number },
): Promise<MeterProof> {
  const { sql } = stores;
  const [year = 0, number = 0] = month.split('-').map(Number);
  const monthEndMs = Date.UTC(year, number);
  const fromMs = Math.min(monthEndMs, Math.max(Date.UTC(year, number - 1), startsAt.getTime()));
  const reachMs = Math.floor((await booksWatermark(sql)) / HOUR_MS) * HOUR_MS;
  const toMs = Math.max(fromMs, Math.min(monthEndMs, reachMs));
  const noted = () => sql<[{ isOpen: boolean }]>`
    select exists (select from meter_days where destination_id = ${id} and day between ${dateOf(Math.floor(fromMs / DAY_MS))}
                   and ${dateOf(Math.floor((monthEndMs - 1) / DAY_MS))})
        or exists (select from meter_destinations where id = ${id} and backfilled_to is not null) as is_open`;
  const [before] = await noted();
  const used = await readUsed(stores, workspace, { startMs: fromMs, endMs: toMs, nowMs });
  const rows = await sql<Sum<string>[]>`
    select state, number, micros, events, quantity from meter_sums where destination_id = ${id} and month = ${month}`;
  const [{ isCarried }] = await sql<[{ isCarried: boolean }]>`
    select coalesce((select sum(${measure === 'events' ? sql`events * 1000000` : sql`micros`} - quantity) from meter_sums
                     where destination_id = ${id} and state <> 'LEFT_OUT'), 0)
         = coalesce((select sum(micros) from meter_rests where destination_id = ${id}), 0) as is_carried`;
  const [after] = await noted();
  const sums = rows.map(({ state, number: count, micros, events, quantity }) => {
    return { state, number: count, micros: BigInt(micros), events: BigInt(events), quantity: BigInt(quantity) };
  });
  const none = { number: 0, quantity: 0n };
  const of = (wanted: string) => sums.find(({ state }) => state === wanted) ?? none;
  const total = (some: Sum<bigint>[], value: (one: Sum<bigint>) => bigint) =>
    some.reduce((sum, one) => sum + value(one), 0n);
  const measured = (one: Pick<Sum<bigint>, 'micros' | 'events'>) =>
    measure === 'events' ? one.events * 1_000_000n : one.micros;
  const [usage, waiting, failed, sent] = [measured(used), of('WAITING'), of('FAILED'), of('SENT')];
  const taken = sums.filter(({ state }) => state !== 'LEFT_OUT');
  const leftOut = total(sums, measured) - total(taken, measured);
  const rests = total(taken, (one) => measured(one) - one.quantity);
  const isPlanned =
    used.micros === total(sums, (one) => one.micros) && used.events === total(sums, (one) => one.events);
  const isDifferent = failed.number > 0 || !isCarried || (!isPlanned && !before.isOpen && !after.isOpen);
  return {
    status: isDifferent ? 'DIFFERENT' : isPlanned && waiting.number === 0 ? 'EXACT' : 'PENDING',
    fromMs,
    toMs,
    usage,
    leftOut,
    rests,
    waiting: waiting.quantity,
    failed: failed.quantity,
    sent: sent.quantity,
    difference: usage - total(sums, measured),
  };
}

type Sum<Amount> = { state: string; number: number; micros: Amount; events: Amount; quantity: Amount };

const DESTINATIONS_AT_ONCE = 100;

type Unproved = { destinationId: string; month: string } & (MeterProof | { status: 'UNKNOWN'; error: unknown });

/**
 * Proves the running month and the one before it of every destination, for jobs; gives those that are not exact, and those that can not be
 * proved now.
 */
export async function* unprovedMeters(
  stores: UsageStores,
  nowMs: number,
  signal?: AbortSignal,
): AsyncGenerator<Unproved> {
  const now = new Date(nowMs);
  const months = [-1, 0].map((by) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + by)).toISOString().slice(0, 'YYYY-MM'.length),
  );
  for (let after = ''; ;) {
    const some = await stores.sql<MeterDestination[]>`
      select ${meterColumns(stores.sql)} from meter_destinations where deleted_at is null and id > ${after}
      order by id limit ${DESTINATIONS_AT_ONCE}`;
    for (const destination of some)
      for (const month of months) {
        const workspace = allowWorkspace(destination.workspaceId);
        signal?.throwIfAborted();
        const proof = await proveMeter(stores, destination, { month, workspace, nowMs }).catch((error: unknown) => ({
          status: 'UNKNOWN' as const,
          error,
        }));
        if (proof.status !== 'EXACT') yield { destinationId: destination.id, month, ...proof };
      }
    if (some.length < DESTINATIONS_AT_ONCE) return;
    after = some.at(-1)!.id;
  }
}

/** What keys with a record used: all, less what has no record. */
async function readUsed(
  stores: UsageStores,
  workspace: AllowedWorkspace,
  { startMs, endMs, nowMs }: { startMs: number; endMs: number; nowMs: number },
): Promise<{ micros: bigint; events: bigint }> {
  if (startMs >= endMs) return { micros: 0n, events: 0n };
  const question = { workspace, periods: periodsOf({ startMs, endMs, timezone: 'UTC' }), groupBy: [] };
  const page = { limit: 1, nowMs };
  const [all] = await readUsage(stores, question, page);
  const [unmetered] = await readUsage(stores, { ...question, filters: { billingIds: [''] } }, page);
  return {
    micros: (all?.micros ?? 0n) - (unmetered?.micros ?? 0n),
    events: BigInt((all?.events ?? 0) - (unmetered?.events ?? 0)),
  };
}
