import type { Books } from '../stores/clickhouse.ts';
import { ApiError } from '../contract/errors.ts';
import { beginEvent } from '../events/event.ts';
import { newId } from '../values/ids.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { Query } from '../stores/postgres.ts';
import type { ShardedRedis } from '../stores/redis.ts';

// What the balance of a billing record is made of. Redis counts what it debits itself, by numbers within epochs. What an
// earlier epoch debited and this Redis has lost, it has from the books: all events of earlier epochs there with a number
// above the last one that survived. Adjustments are counted by their own numbers.

/** A billing record by where its balance is kept. */
export type BillingRef = { id: string; shard: number; workspaceId: string; externalMeterId: string };

/** A balance as Redis has it, with the last sequence number that it knows of each epoch. */
export type Balance = {
  place: BillingRef;
  atMs: number;
  epoch: number;
  usedMicros: number;
  lateMicros: number;
  lateEvents: number;
  adjustment: number;
  numbers: Map<number, number>;
};

/** What the books say of one epoch of a record, as seen from a balance. */
export type EpochInBooks = {
  epoch: number;
  /** Verifications that Redis counts itself. */
  ownMicros: number;
  /** How many of the numbers are there up to the last one that Redis knows, and which that is. */
  ownNumbers: number;
  ownLast: number;
  /** Verifications of an earlier epoch that only the books know of. */
  lateMicros: number;
  lateEvents: number;
  /** How many numbers are there in all, and the highest that was ever seen. */
  numbers: number;
  lastNumber: number;
  /** The balance after the last event, with its place in the order of events. */
  last: { seq: number; number: number; usedMicros: number } | undefined;
  adjustments: { number: number; micros: number }[];
};

/** The right to write balances of a shard: its fence, and the epoch that balances are settled for. */
export type WriteGrant = (shard: number) => { fence: string; epoch: number };

const WITHIN_MS = 2_000;
const RECORDS_AT_ONCE = 1_000;

/** Where the balances of some records are kept, or of all in some shards: in the order of ids, so many after one. */
export function billingRefsAfter(
  sql: Query,
  which: 'all' | { ids: string[] } | { shards: number[] },
  after: string,
  limit: number,
) {
  const wanted =
    which === 'all' ? sql`` : 'ids' in which ? sql`id = any(${which.ids}) and` : sql`shard = any(${which.shards}) and`;
  return sql<BillingRef[]>`
    select id, shard, workspace_id, external_meter_id from billing_records
    where ${wanted} id > ${after}
    order by id limit ${limit}`;
}

/** Reads balances; those of records that are not in force in Redis are left out. 503 where a shard is closed. */
export async function readBalances(
  redis: ShardedRedis,
  places: BillingRef[],
  withinMs = WITHIN_MS,
  fence = (shard: number) => redis.node(shard).runId(),
): Promise<Balance[]> {
  const balances = await Promise.all(
    places.map(async (place) => {
      const keys = [keyspace.meta(place.shard), recordKey(place)];
      const [status, at, epoch, ...fields] = await redis
        .node(place.shard)
        .script('balance', keys, [fence(place.shard)], withinMs);
      if (status === 'CLOSED') throw new ApiError('redis_unavailable');
      return status === 'OK' ? balanceFrom(place, Number(at), Number(epoch), fields) : undefined;
    }),
  );
  return balances.filter((balance) => balance !== undefined);
}

function balanceFrom(place: BillingRef, atMs: number, epoch: number, fields: string[]): Balance {
  const known = new Map<string, number>();
  for (let i = 0; i + 1 < fields.length; i += 2) known.set(fields[i]!, Number(fields[i + 1]));
  const numbers = [...known].flatMap(([name, value]): [number, number][] =>
    /^n\d+$/.test(name) ? [[Number(name.slice(1)), value]] : [],
  );
  return {
    place,
    atMs,
    epoch,
    usedMicros: known.get('u') ?? 0,
    lateMicros: known.get('x') ?? 0,
    lateEvents: known.get('c') ?? 0,
    adjustment: known.get('a') ?? 0,
    numbers: new Map(numbers),
  };
}

/** What the books say of records as their balances divide it. What came after a balance was read is left out. */
export async function readBooks(books: Books, balances: Balance[]): Promise<Map<string, EpochInBooks[]>> {
  const found = new Map<string, EpochInBooks[]>();
  const groups = Object.values(Object.groupBy(balances, (balance) => balance.epoch));
  for (const group of groups) {
    for (let i = 0; i < group!.length; i += RECORDS_AT_ONCE) {
      for (const line of await readEpochs(books, group!.slice(i, i + RECORDS_AT_ONCE))) {
        const { billing_id, ...epoch } = line;
        found.set(billing_id, [...(found.get(billing_id) ?? []), epoch]);
      }
    }
  }
  return found;
}

// Numbers come as text where they may be large.
type Line = {
  billing_id: string;
  epoch: number;
  sums: [own: string, late: string];
  counts: [own: string, ownLast: string, late: string, all: string, last: string];
  last: [known: number, seq: string, number: number, used: string];
  adjustments: [number: number, micros: string][];
};

async function readEpochs(books: Books, balances: Balance[]) {
  const known = balances.flatMap(({ place, numbers }) =>
    [...numbers].map(([epoch, seq]) => ({ id: place.id, epoch, seq })),
  );
  const answer = await books.client.query({
    query: `
      select billing_id, epoch,
        (toString(sumIf(cost_micros, kind = 'verification' and seq <= known_seq)),
         toString(sumIf(cost_micros, kind = 'verification' and seq > known_seq))) as sums,
        (toString(countIf(numbered and seq <= known_seq)), toString(any(known_seq)),
         toString(countIf(kind = 'verification' and seq > known_seq)),
         toString(countIf(numbered)), toString(maxIf(seq, kind != 'adjustment'))) as counts,
        (countIf(kind != 'witness') > 0,
         toString(argMaxIf(seq, (seq, number), kind != 'witness')),
         argMaxIf(number, (seq, number), kind != 'witness'),
         toString(argMaxIf(used_micros, (seq, number), kind != 'witness'))) as last,
        arrayMap(a -> (a.1, toString(a.2)), groupArrayIf((number, cost_micros), kind = 'adjustment')) as adjustments
      from (
        select billing_id, epoch, kind, kind in ('verification', 'settlement') as numbered, seq, number, cost_micros, used_micros
        from usage_events final
        where billing_id in {ids:Array(String)} and epoch <= {epoch:UInt32}
      ) as event
      left join (
        select known.1 as billing_id, known.2 as epoch, known.3 as known_seq
        from (select arrayJoin(arrayZip({knownIds:Array(String)}, {knownEpochs:Array(UInt32)}, {knownSeqs:Array(UInt64)})) as known)
      ) as survived using (billing_id, epoch)
      where epoch < {epoch:UInt32} or seq <= known_seq
      group by billing_id, epoch`,
    query_params: {
      ids: balances.map(({ place }) => place.id),
      epoch: balances[0]!.epoch,
      knownIds: known.map(({ id }) => id),
      knownEpochs: known.map(({ epoch }) => epoch),
      knownSeqs: known.map(({ seq }) => seq),
    },
    format: 'JSONEachRow',
  });
  const lines = await answer.json<Line>();
  return lines.map(({ billing_id, epoch, sums, counts, last, adjustments }) => ({
    billing_id,
    epoch,
    ownMicros: Number(sums[0]),
    lateMicros: Number(sums[1]),
    ownNumbers: Number(counts[0]),
    ownLast: Number(counts[1]),
    lateEvents: Number(counts[2]),
    numbers: Number(counts[3]),
    lastNumber: Number(counts[4]),
    last: last[0] ? { seq: Number(last[1]), number: last[2], usedMicros: Number(last[3]) } : undefined,
    adjustments: adjustments.map(([number, micros]) => ({ number, micros: Number(micros) })),
  }));
}

/** What the books have that a balance lacks: late verifications in all, and adjustments that follow its own. */
export function lateOf(balance: Balance, epochs: EpochInBooks[]) {
  const adjustments = new Map(epochs.flatMap((one) => one.adjustments.map(({ number, micros }) => [number, micros])));
  let to = balance.adjustment;
  let adjustedMicros = 0;
  for (let micros = adjustments.get(to + 1); micros !== undefined; micros = adjustments.get(to + 1)) {
    adjustedMicros += micros;
    to += 1;
  }
  return {
    micros: sum(epochs.map((one) => one.lateMicros)),
    events: sum(epochs.map((one) => one.lateEvents)),
    from: balance.adjustment,
    to,
    adjustedMicros,
  };
}

/** The balance after the last event of all epochs; undefined without one. */
export function lastBalance(epochs: EpochInBooks[]): number | undefined {
  const last = epochs.filter((one) => one.last).toSorted((a, b) => b.epoch - a.epoch)[0];
  return last?.last?.usedMicros;
}

/**
 * Sets what the balances of records have from the books. Gives by how much those changed that did. It may be done at any
 * time and again: what it writes is the whole, never a step.
 */
export async function settle(
  redis: ShardedRedis,
  books: Books,
  balances: Balance[],
  right: WriteGrant,
): Promise<{ place: BillingRef; changeMicros: number }[]> {
  const epochs = await readBooks(books, balances);
  const settled = await Promise.all(
    balances.map(async (balance) => {
      const { place } = balance;
      const ofRecord = epochs.get(place.id) ?? [];
      const late = lateOf(balance, ofRecord);
      if (late.events <= balance.lateEvents && late.to === late.from) return { place, changeMicros: 0 };
      const node = redis.node(place.shard);
      const keys = [keyspace.meta(place.shard), recordKey(place), keyspace.outbox(place.shard)];
      const { fence, epoch } = right(place.shard);
      const event = beginEvent({ kind: 'settlement', id: newId('evt'), billingId: place.id });
      const { micros, events, from, to, adjustedMicros } = late;
      const sums = [micros, events, from, to, adjustedMicros, lastBalance(ofRecord) ?? ''];
      const args = [fence, node.notAfter(WITHIN_MS), epoch, ...sums, event];
      const [status, , change] = await node.script('settle', keys, args, WITHIN_MS);
      if (status !== 'OK')
        throw new ApiError('redis_unavailable', { cause: new Error(`the settle script answered ${status}`) });
      return { place, changeMicros: Number(change) };
    }),
  );
  return settled.filter(({ changeMicros }) => changeMicros !== 0);
}

/** The right that an open shard gives to who knows the epoch of the balances. */
export function grantOfOpenShards(redis: ShardedRedis, balances: Balance[]): WriteGrant {
  const epochs = new Map(balances.map(({ place, epoch }) => [place.shard, epoch]));
  return (shard) => ({ fence: redis.node(shard).runId(), epoch: epochs.get(shard)! });
}

export function sum(numbers: number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

function recordKey({ shard, workspaceId, externalMeterId }: BillingRef): string {
  return keyspace.billing(shard, workspaceId, externalMeterId);
}
