import { ApiError } from '../../contract/errors.ts';
import { beginEvent } from '../../events/event.ts';
import { mapLimited } from '../../runtime/map-limited.ts';
import { withTimeout } from '../../runtime/timeout.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { keyspace } from '../../stores/keyspace.ts';
import type { Query } from '../../stores/postgres.ts';
import type { ShardedRedis } from '../../stores/redis.ts';
import { chunks } from '../../values/chunks.ts';
import { newId } from '../../values/ids.ts';
import { emptyBalance, type Balance, type FailedRecord } from '../balances.ts';
import { billingKey, type BillingRef } from '../billing-refs.ts';
import { byHalves } from '../by-halves.ts';
import { lateUsage, readBooked, sum, type BookedRecord } from '../sums/booked-records.ts';
import { settleHolds } from './lost-holds.ts';
import { readTurnLines, type TurnLine, type TurnOf } from './turn-lines.ts';

/** Permission to write the balances of a shard: its fence, and the epoch that the balances are settled for. */
export type WriteGrant = (shard: number) => { fence: string; epoch: number };

export type SettleStores = { sql: Query; redis: ShardedRedis; books: Books };

/** By how much balances changed, and the records that failed alone; all other balances are settled. */
export type Settled = { changed: { billing: BillingRef; changeMicros: number }[]; failed: FailedRecord[] };

const WITHIN_MS = 2_000;
// A script of so many takes Redis about 100 µs.
const RECORDS_PER_SCRIPT = 16;
const PAGES_AT_ONCE = 8;
const PROBE_WITHIN_MS = 5_000;

/**
 * Sets the part of balances that comes from the books. It can run at any time and again, because it writes the whole part
 * and never adds to it. A record that fails alone does not hold up the others; it throws where a server fails.
 */
export async function settle(stores: SettleStores, balances: Balance[], grant: WriteGrant): Promise<Settled> {
  const probe = () => requireBooks(stores, balances[0]!.epoch);
  const { records, failed } = await readBooks(stores, balances, probe);
  const asked = [...records].flatMap(([balance, fromBooks]) => toSettle(balance, fromBooks));
  const ofShards = Map.groupBy(asked, ({ billing }) => billing.shard).values();
  const pages = [...ofShards].flatMap((ofShard) => chunks(ofShard, RECORDS_PER_SCRIPT));
  const outcomes = (await mapLimited(pages, PAGES_AT_ONCE, (page) => settlePage(stores.redis, page, grant))).flat();
  const changed = outcomes.filter((one) => one.changeMicros !== undefined && one.changeMicros !== 0);
  const done = new Set(outcomes.filter((one) => !('error' in one)).map(({ billing }) => billing.id));
  const withHolds = [...records]
    .filter(([balance, { booked }]) => mayLackHolds(balance, booked, done))
    .map(([one]) => one);
  failed.push(...(await settleHolds(stores, withHolds, grant, probe)));
  failed.push(...outcomes.filter((one) => 'error' in one).map(({ billing, error }) => ({ billing, error })));
  return { changed: changed.map(({ billing, changeMicros = 0 }) => ({ billing, changeMicros })), failed };
}

/** The permission that open shards give while they are in the epochs of these balances. */
export function grantOfOpenShards(redis: ShardedRedis, balances: Balance[]): WriteGrant {
  const epochs = new Map(balances.map(({ billing, epoch }) => [billing.shard, epoch]));
  return (shard) => ({ fence: redis.node(shard).runId(), epoch: epochs.get(shard)! });
}

/** What the books have of a record, and of an account that Redis lost its last turn. */
type FromBooks = { booked: BookedRecord; lastTurn: TurnLine | undefined; hasVoids: boolean };

type AllFromBooks = { records: Map<Balance, FromBooks>; failed: FailedRecord[] };

/** Reads what the books have of some records; gives those that fail alone. */
async function readBooks(stores: SettleStores, balances: Balance[], probe: () => Promise<void>): Promise<AllFromBooks> {
  const records = new Map<Balance, FromBooks>();
  const read = async (some: Balance[]) => {
    const booked = await readBooked(stores, some);
    const turns = await readTurnLines(stores.books, lostTurns(some, booked));
    const voids = await findVoids(stores.sql, some, booked);
    for (const one of some) {
      const { id } = one.billing;
      records.set(one, { booked: booked.get(id)!, lastTurn: turns.get(id), hasVoids: voids.has(id) });
    }
  };
  const alone = await byHalves(balances, read, probe);
  return { records, failed: alone.map(({ item: { billing }, error }) => ({ billing, error })) };
}

/** The last turns of accounts that Redis lost. */
function lostTurns(balances: Balance[], booked: Map<string, BookedRecord>): TurnOf[] {
  return balances.flatMap(({ billing: { id, workspaceId }, totalMicros }) => {
    const turn = totalMicros === undefined ? booked.get(id)!.lastTurn : undefined;
    return turn ? [{ id, workspaceId, turn }] : [];
  });
}

/**
 * Records of which the books have a void of a grant that the balance lacks. The books have no more of it than its number: the
 * sweeper does it again, with the adjustments around it. What Redis lost as a whole comes back with its last turn.
 */
async function findVoids(sql: Query, balances: Balance[], booked: Map<string, BookedRecord>): Promise<Set<string>> {
  const asked = balances.flatMap((balance) => {
    const { from, to } = lateUsage(balance, booked.get(balance.billing.id)!);
    return to > from && balance.sequences.size > 0 ? [{ id: balance.billing.id, from, to }] : [];
  });
  if (asked.length === 0) return new Set();
  const rows = await sql<{ billingId: string }[]>`
    select distinct a.billing_id
    from unnest(${asked.map(({ id }) => id)}::text[], ${asked.map(({ from }) => from)}::int[],
                ${asked.map(({ to }) => to)}::int[]) as late (id, last, highest)
    join adjustments a on a.billing_id = late.id and a.number > late.last and a.number <= late.highest
    where a.grant_id is not null`;
  return new Set(rows.map(({ billingId }) => billingId));
}

// Ids of billing records have another form.
const NOBODY: BillingRef = { id: 'nobody', shard: 0, workspaceId: '', externalMeterId: '' };

/** Throws unless the books can be read at all: of a record that does not exist, in the same way as of others. */
export async function requireBooks(stores: SettleStores, epoch: number): Promise<void> {
  await withTimeout(stores.redis.clock, PROBE_WITHIN_MS, readBooked(stores, [emptyBalance(NOBODY, epoch)]));
}

/** A record that has something to be set, and the arguments that say so to the script. */
type ToSettle = { billing: BillingRef; args: (string | number)[] };

function toSettle(balance: Balance, { booked, lastTurn, hasVoids }: FromBooks): ToSettle[] {
  const { billing } = balance;
  const { micros, events, from, ...adjusted } = lateUsage(balance, booked);
  const { to, adjustedMicros } = hasVoids ? { to: from, adjustedMicros: 0 } : adjusted;
  if (events <= balance.lateEvents && to === from && !balance.held) return [];
  const event = beginEvent({
    kind: 'settlement',
    id: newId('evt'),
    billingId: billing.id,
    workspaceId: billing.workspaceId,
  });
  const args = [micros, events, from, to, adjustedMicros, booked.lastMicros ?? '', event, packTurn(lastTurn)];
  return [{ billing, args }];
}

function packTurn(turn: TurnLine | undefined): string {
  return turn ? [turn.totalMicros, turn.expiredMicros, turn.state].join('\0') : '';
}

const AGAIN_FOR_MS = 2 * 86_400_000;

/**
 * Whether Redis may have lost lines of holds: where it has lost others, or where one was settled that is of an earlier epoch.
 * Whoever holds has an account, and so a turn; where that was lost, too, the lines of its holds do not add up.
 */
function mayLackHolds(
  { billing, heldMicros = 0, heldAgainMs = -Infinity, atMs }: Balance,
  { lastTurn, epochs }: BookedRecord,
  done: Set<string>,
) {
  if (lastTurn) return done.has(billing.id) || heldAgainMs > atMs - AGAIN_FOR_MS;
  return sum(epochs.map(({ own, late }) => own.heldMicros + late.heldMicros)) !== heldMicros;
}

type Outcome = { billing: BillingRef; changeMicros?: number; error?: unknown };

/** Settles records of one shard, and gives by how much each changed. Throws an ApiError where the server fails or the shard is closed. */
async function settlePage(redis: ShardedRedis, page: ToSettle[], grant: WriteGrant): Promise<Outcome[]> {
  const { shard } = page[0]!.billing;
  const node = redis.node(shard);
  const { fence, epoch } = grant(shard);
  const keys = [keyspace.meta(shard), keyspace.outbox(shard), ...page.map(({ billing }) => billingKey(billing))];
  const args = [fence, node.notAfter(WITHIN_MS), epoch, ...page.flatMap((one) => one.args)];
  const [status, , ...results] = await node.script('settle', keys, args, WITHIN_MS);
  if (status !== 'OK')
    throw new ApiError('redis_unavailable', { cause: new Error(`the settle script answered ${status}`) });
  return page.map(({ billing }, i) => {
    const [done, change] = results.slice(2 * i, 2 * i + 2);
    return done === 'OK' ? { billing, changeMicros: Number(change) } : { billing, error: new Error(change) };
  });
}
