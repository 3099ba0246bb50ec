import type { ApiError } from '../../shared/contract/errors.ts';
import { parseSignedCredits } from '../../shared/values/credits.ts';
import { IS_USAGE, type Books } from '../../shared/stores/clickhouse.ts';
import {
  amountsOf,
  faultOfAmounts,
  maySumTo,
  stateOfKey,
  type Amounts,
  type Debit,
  type Hold,
  type Key,
  type Meter,
} from './model.ts';
import type { Json, SimulatedApi, SimulatedVerify } from './programs.ts';
import type { Beginning } from './stage.ts';
import type { Work } from './work.ts';

/** What the books have of a debit: how many events, and when the last of them happened (Unix ms). */
type Found = { count: number; lastMs: number };
export type Booked = {
  of(debit: Debit): Found;
  /** What the events of a hold sum up to; undefined without any. */
  ofHold(hold: Hold): number | undefined;
  /** What those of a record sum up to. */
  ofRecord(id: string): number;
  /** Their sums by record, day and usage name, but those of 0, as text. */
  days: string[];
  /** How many debits and holds it has. */
  size: number;
};

// All that a seed may see: without them each day from 1970 on is asked for.
const SIMULATED_DAYS = { from: '2028-01-01', to: '2028-12-31' };

/** Reads the books, as no program does. */
export async function readBooked({ client }: Books, workspaceId: string): Promise<Booked> {
  const query = `
    select billing_id, toString(kind), hold_id, hold_micros, cost_micros, toUnixTimestamp64Milli(time), day, usage_name
    from usage_events final where workspace_id = {workspaceId:String} and (${IS_USAGE} or kind = 'hold')`;
  const answer = await client.query({ query, query_params: { workspaceId }, format: 'JSONCompactEachRow' });
  const found = new Map<string, Found & { micros: number }>();
  const holds = new Map<string, string>();
  const records = new Map<string, number>();
  const days = new Map<string, number>();
  for (const [id, kind, holdId, held, cost, atMs, day, usageName] of await answer.json<string[]>()) {
    if (kind === 'hold') holds.set(`${id} ${held}`, holdId!);
    const name = holdId ? `${id} hold ${holdId}` : `${id} ${kind} ${cost}`;
    const micros = Number(cost);
    if (micros === 0) continue;
    const before = found.get(name) ?? { count: 0, micros: 0, lastMs: 0 };
    const lastMs = Math.max(before.lastMs, Number(atMs));
    found.set(name, { count: before.count + 1, micros: before.micros + micros, lastMs });
    add(records, id!, micros);
    add(days, `${id} ${day} ${usageName}`, micros);
  }
  return {
    of: (debit) => found.get(nameOf(debit)) ?? { count: 0, lastMs: 0 },
    ofHold({ meter, micros, id }) {
      // The books name it by a part of its id; of one that nobody was answered they know the amount.
      const which =
        id === ''
          ? holds.get(`${meter.id} ${micros}`)
          : Buffer.from(id.slice(5), 'base64url').toString().split('\0')[4];
      return found.get(`${meter.id} hold ${which}`)?.micros;
    },
    ofRecord: (id) => records.get(id) ?? 0,
    days: sumsIn(days),
    size: found.size,
  };
}

function nameOf({ meter, what, micros }: Debit): string {
  return `${meter.id} ${what} ${micros}`;
}

function add(sums: Map<string, number>, name: string, micros: number): void {
  sums.set(name, (sums.get(name) ?? 0) + micros);
}

function sumsIn(sums: Map<string, number>): string[] {
  return [...sums]
    .filter(([, micros]) => micros !== 0)
    .map(([name, micros]) => `${name} ${micros}`)
    .toSorted();
}

/** Holds the books against all that clients were answered, once nothing is on its way. */
export async function proveBooks(
  books: Books,
  { model, breaks, workspaceId }: Work,
  billingOf: (id: string) => Promise<Json>,
): Promise<Booked> {
  const booked = await readBooked(books, workspaceId);
  // The books cannot tell apart what was asked for in one amount.
  const alike = [...Map.groupBy(model.debits, nameOf).values()];
  for (const debits of alike) {
    const { count } = booked.of(debits[0]!);
    const { what, micros, meter } = debits[0]!;
    const states = debits.map(({ state }) => state).join();
    const most = debits.some((one) => one.mayBeDouble) ? Infinity : 0;
    const may = debits.filter(({ state }) => state !== 'none').length;
    const must = debits.filter(({ state, mayBeLost }) => state === 'sure' && !mayBeLost).length;
    if (count < must || (count > may && (count > most || may === 0)))
      breaks(`the ${what} of ${micros} from ${meter.name} (${states}) is in the books ${count} times`);
  }
  for (const hold of model.holds)
    if (!maySumTo(hold, booked.ofHold(hold) ?? 0))
      breaks(`the books have ${booked.ofHold(hold)} of ${JSON.stringify({ ...hold, meter: hold.meter.name })}`);
  const told =
    alike.filter(([one]) => booked.of(one!).count > 0).length +
    model.holds.filter((one) => booked.ofHold(one) !== undefined).length;
  if (told !== booked.size) breaks(`the books have ${booked.size - told} debits that nobody asked for`);
  for (const meter of model.meters) {
    const billing = await billingOf(meter.id);
    const amounts = amountsOf(billing);
    const sum = booked.ofRecord(meter.id);
    if (amounts.used !== sum) breaks(`${meter.name} has used ${amounts.used}, and its events are ${sum}`);
    const fault = faultOfAmounts(model, meter, amounts);
    if (fault) breaks(`${fault}: ${JSON.stringify(billing)}`);
  }
  return booked;
}

/** What is asked when all is at rest. */
export type Asks = {
  read(operationId: string, params: object, query?: object): Promise<Json>;
  verify(text: string): Promise<Json>;
};

export function asksOf({ caller }: Beginning, api: SimulatedApi, { verify }: SimulatedVerify): Asks {
  return {
    read: async (operationId, params, query = {}) => (await api.handle(caller, { operationId, params, query })).body,
    async verify(text) {
      const call = { caller, body: { key: text }, clientAddress: '192.0.2.1', idempotencyKey: undefined };
      // A clock that has just jumped may make it late once.
      return JSON.parse((await verify(call).catch(() => verify(call))).body);
    },
  };
}

/**
 * Holds what verify decides by, what Postgres has, and what the api says of it against each other. Where a client's request ends with
 * that of its process, nothing is debited after it was answered.
 */
export async function proveRest(work: Work, booked: Booked, asks: Asks): Promise<void> {
  const { model, breaks } = work;
  for (const debit of model.debits) {
    const { count, lastMs } = booked.of(debit);
    const lateMs = lastMs - (debit.noLaterThanMs ?? Infinity);
    if (count > 0 && debit.asking === 0 && lateMs > 0)
      breaks(`the ${debit.what} of ${debit.micros} was debited ${lateMs} ms after its client was answered`);
  }
  await proveUsage(work, asks, booked);
  for (const meter of model.meters) {
    const { billing } = await asks.read('getBilling', { bid: meter.id });
    const amounts = amountsOf(billing);
    if (amounts.held !== 0) breaks(`${amounts.held} of ${meter.name} are still held`);
    await proveGrants(work, asks, meter, amounts);
    for (const key of meter.keys) await proveKey(work, asks, key, amounts);
  }
}

/** What grants gave, kept and lost adds up to their credits; together they are no more than the record has of each. */
async function proveGrants({ breaks }: Work, { read }: Asks, meter: Meter, amounts: Amounts): Promise<void> {
  const { grants } = await read('listGrants', { bid: meter.id }, { limit: 100 });
  const sums = { credits: 0, used: 0, expired: 0 };
  for (const grant of grants) {
    const micros = (name: string) => parseSignedCredits(grant[name])!;
    const [credits, used] = [micros('credits'), micros('usedCredits')];
    const [expired, remaining] = [micros('expiredCredits'), micros('remainingCredits')];
    const isBegun = grant.state !== 'PENDING' && !(grant.voidedAt < grant.beginsAt);
    if (isBegun && credits !== used + expired + remaining) breaks(`${JSON.stringify(grant)} does not add up`);
    if (Math.min(used, expired, remaining) < 0) breaks(`${JSON.stringify(grant)} is less than nothing`);
    if (!isBegun) continue;
    sums.credits += credits;
    sums.used += used;
    sums.expired += expired;
  }
  // What a moment has laid over grants stays theirs where the usage was lost: the next usage is paid with it.
  const mostUsed = amounts.used + meter.lostMicros;
  if (sums.credits > amounts.total || sums.used > mostUsed || sums.expired > amounts.expired)
    breaks(`the grants of ${meter.name} sum up to ${JSON.stringify(sums)}, it has ${JSON.stringify(amounts)}`);
}

/** The usage of the workspace by record, day and name is what its events sum up to. */
async function proveUsage({ breaks, workspaceId }: Work, { read }: Asks, booked: Booked): Promise<void> {
  const { data } = await read('listUsage', {}, { workspaceId, ...SIMULATED_DAYS, limit: 10_000 });
  const said = new Map<string, number>();
  for (const { billingId = '', start, usageName, totalBillingUsage } of data)
    add(said, `${billingId} ${start.slice(0, 10)} ${usageName}`, parseSignedCredits(totalBillingUsage)!);
  if (sumsIn(said).join() !== booked.days.join())
    breaks(`usage is ${sumsIn(said).join(', ')}, its events are ${booked.days.join(', ')}`);
}

/** What verify decides is what Postgres has, and what clients were answered. */
async function proveKey(
  { breaks, workspaceId }: Work,
  { read, verify }: Asks,
  key: Key,
  amounts: Amounts,
): Promise<void> {
  const stored = await read('getKey', { id: workspaceId, akid: key.id }).catch((error: ApiError) => error.errorName);
  const state = stored === 'key_not_found' ? 'deleted' : stateOfKey(stored);
  if (!key.state.may.includes(state)) breaks(`a key is ${state}, and it was ${key.state.may.join(' or ')}`);
  if (key.mayBeRotated) return;
  const { status, billing } = await verify(key.text);
  const should = { enabled: 'VALID', disabled: 'DISABLED', deleted: 'DELETED' }[state];
  if (status !== should) breaks(`a key is ${state}, and ${status}`);
  if (billing && JSON.stringify(amountsOf(billing)) !== JSON.stringify(amounts))
    breaks(`verify says ${JSON.stringify(amountsOf(billing))}, the api ${JSON.stringify(amounts)}`);
}
