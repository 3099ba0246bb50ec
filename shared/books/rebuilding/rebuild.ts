import { randomUUID } from 'node:crypto';
import { ApiError } from '../../contract/errors.ts';
import { beginEvent, type UsageEvent } from '../../events/event.ts';
import type { Logger } from '../../runtime/log.ts';
import { mapLimited } from '../../runtime/map-limited.ts';
import { withTimeout } from '../../runtime/timeout.ts';
import type { Books } from '../../stores/clickhouse.ts';
import { END } from '../../stores/fields.ts';
import { keyspace } from '../../stores/keyspace.ts';
import type { Sql } from '../../stores/postgres.ts';
import type { ShardedRedis } from '../../stores/redis.ts';
import { chunks } from '../../values/chunks.ts';
import { newId } from '../../values/ids.ts';
import { billingKey, type BillingRef } from '../billing-refs.ts';
import { byHalves } from '../by-halves.ts';
import { readBooked, sum, type BookedRecord } from '../sums/booked.ts';
import { readInOrder } from './booked-adjustments.ts';
import { firstDayOfHolds, readHolds, type BookedHold } from './booked-holds.ts';
import { accountInBooks, readVoids, type Void } from './lost-accounts.ts';
import { noteUnsettled } from './unsettled-records.ts';

/** Permission to write the balances of a shard: its fence, and its epoch, or the next one while it is built. */
export type WriteGrant = (shard: number) => { fence: string; epoch: number };

export type RebuildStores = { sql: Sql; redis: ShardedRedis; books: Books; log: Logger };

/**
 * A record that was set aside, since when in Unix ms, and the last numbers that it has given: once the books have all up to them, it
 * can be rebuilt. `mark` says who set it aside; it is empty in a shard that is built.
 */
export type SetAside = { billing: BillingRef; mark: string; sequence: number; adjustment: number; sinceMs: number };

const WITHIN_MS = 2_000;
// A script of so many takes Redis about 100 µs.
const RECORDS_PER_SCRIPT = 16;
const SCRIPTS_AT_ONCE = 8;
const PROBE_WITHIN_MS = 5_000;

/**
 * Rebuilds the balances of records that are set aside, or in a shard that is built, from the books: used credits, the account, its
 * holds, and what counts its lines. It can run again at any time, because it writes all and adds to nothing. Records that fail alone are
 * set aside and noted: their calls get 503 until they are rebuilt. Throws where a server fails.
 */
export async function rebuild(stores: RebuildStores, records: SetAside[], grant: WriteGrant): Promise<void> {
  const rebuildSome = (some: SetAside[]) => rebuildPage(stores, some, grant);
  for (const { item, error } of await byHalves(records, rebuildSome, () => requireBooks(stores))) {
    const { billing, mark } = item;
    if (mark === '') await setAside(stores.redis, [billing], grant);
    await noteUnsettled(stores.sql, [billing.id]);
    stores.log.error(
      { error, billingId: billing.id },
      'a billing record can not be rebuilt now; it will be tried again',
    );
  }
}

/**
 * Sets records of open shards, or of one that is built, aside: until they are rebuilt their calls get 503. Throws an ApiError where a
 * shard is closed.
 */
export async function setAside(redis: ShardedRedis, billings: BillingRef[], grant: WriteGrant): Promise<SetAside[]> {
  const mark = randomUUID();
  return mapLimited(billings, SCRIPTS_AT_ONCE, async (billing) => {
    const keys = [billingKey(billing), ...holdKeys(billing)];
    const [, ...numbers] = await write(redis, 'set-aside', billing.shard, keys, [mark], grant);
    const [sequence, adjustment, sinceMs] = numbers.map(Number) as [number, number, number];
    return { billing, mark, sequence, adjustment, sinceMs };
  });
}

/** Throws unless the books can be read at all: of a record that does not exist, in the same way as of others. */
export async function requireBooks(stores: RebuildStores): Promise<void> {
  // Ids of billing records have another form.
  const nobody = { id: 'nobody', workspaceId: '' };
  await withTimeout(stores.redis.clock, PROBE_WITHIN_MS, readBooked(stores, [nobody]));
}

async function rebuildPage(stores: RebuildStores, records: SetAside[], grant: WriteGrant): Promise<void> {
  const { redis, sql } = stores;
  const billings = records.map(({ billing }) => billing);
  const booked = await readInOrder(stores, billings);
  for (const record of records) requireAll(record, grant(record.billing.shard).epoch, booked.get(record.billing.id)!);
  const voids = await readVoids(
    sql,
    billings.map(({ id }) => id),
  );
  const holds = await restoreHolds(stores, records, booked, grant);
  // One that is not set aside and never had a line is what it has to be.
  const known = records.filter(({ billing: { id }, mark }) => mark !== '' || booked.get(id)!.lastMicros !== undefined);
  const byShard = Map.groupBy(known, ({ billing }) => billing.shard);
  const pages = [...byShard.values()].flatMap((some) => chunks(some, RECORDS_PER_SCRIPT));
  await mapLimited(pages, SCRIPTS_AT_ONCE, async (page) => {
    const [{ mark, billing }] = page as [SetAside];
    const { shard } = billing;
    const { epoch } = grant(shard);
    const keys = [keyspace.outbox(shard), keyspace.due(shard), ...page.map((one) => billingKey(one.billing))];
    const args = page.flatMap((one) => {
      const { id } = one.billing;
      const told = { booked: booked.get(id)!, voids: voids.get(id) ?? [], holds: holds.get(id) ?? noHolds() };
      return argsOf(one.billing, epoch, told);
    });
    const answers = await write(redis, 'rebuild', shard, keys, [epoch, mark, ...args], grant);
    if (answers.some((answer) => answer !== 'OK')) throw new Error('a record was set aside by another process');
  });
}

/** Throws where the books have yet to get some of the lines that a record has given. */
function requireAll({ sequence, adjustment }: SetAside, epoch: number, { epochs, adjustments }: BookedRecord): void {
  const numbers = epochs.find((one) => one.epoch === epoch)?.own.numbers ?? 0;
  if (numbers < sequence || adjustments.own.numbers < adjustment)
    throw new Error('the books have yet to get the last lines of the record');
}

/** What holds of a record reserve, what open ones own of its classes, and what puts their lines right. */
type Holds = { heldMicros: number; owned: Map<number, number>; lines: Partial<UsageEvent>[]; costMicros: number };

/** Writes the holds of some records; gives what they come to, by record. */
async function restoreHolds(
  { redis, books }: RebuildStores,
  records: SetAside[],
  booked: Map<string, BookedRecord>,
  grant: WriteGrant,
): Promise<Map<string, Holds>> {
  const nowMs = await redis.now();
  const first = firstDayOfHolds(nowMs);
  const asked = records.map(({ billing: { id, workspaceId } }) => {
    return { id, workspaceId, days: booked.get(id)!.holdDays.filter((day) => day >= first) };
  });
  const byId = new Map(records.map((record) => [record.billing.id, record]));
  const found = new Map<string, Holds>();
  for await (const page of readHolds(books, asked, nowMs)) {
    const byShard = Map.groupBy(page, ([id]) => byId.get(id)!.billing.shard);
    await mapLimited([...byShard], SCRIPTS_AT_ONCE, async ([shard, ofShard]) => {
      const keys = ofShard.map(([id]) => byId.get(id)!.billing).flatMap((one) => [billingKey(one), ...holdKeys(one)]);
      const args = ofShard.flatMap(([, some]) => [
        some.length,
        ...some.flatMap(({ id, text, open, keptSeconds }) => [id, text, open?.endsAtMs ?? '', keptSeconds]),
      ]);
      await write(redis, 'restore-holds', shard, keys, [records[0]!.mark, ...args], grant);
    });
    for (const [id, some] of page) {
      const holds = found.get(id) ?? noHolds();
      for (const hold of some) addHold(holds, hold);
      found.set(id, holds);
    }
  }
  return found;
}

function noHolds(): Holds {
  return { heldMicros: 0, owned: new Map(), lines: [], costMicros: 0 };
}

function addHold(
  holds: Holds,
  { id, keyId, usageName, open, heldChangeMicros: change, costChangeMicros: cost }: BookedHold,
) {
  const line = { holdId: id, keyId, usageName, detail: 'lost' };
  holds.heldMicros += open?.micros ?? 0;
  holds.costMicros += cost;
  for (const [number, micros] of open?.owned ?? []) holds.owned.set(number, (holds.owned.get(number) ?? 0) + micros);
  if (change < 0) holds.lines.push({ ...line, kind: 'release', holdMicros: -change });
  if (change > 0 || cost !== 0)
    holds.lines.push({ ...line, kind: 'correction', costMicros: cost, holdMicros: Math.max(0, change) });
}

/** The arguments that say to the script what a record becomes. */
function argsOf(
  { id: billingId, workspaceId }: BillingRef,
  epoch: number,
  { booked, voids, holds }: { booked: BookedRecord; voids: Void[]; holds: Holds },
): (string | number)[] {
  const { epochs, adjustments, lastMicros = 0, lastHeldMicros } = booked;
  const bookedMicros = sum(epochs.map(({ own }) => own.micros)) + adjustments.own.micros;
  const usedMicros = bookedMicros + holds.costMicros;
  const { heldMicros, lines } = holds;
  // The last line in the books must show the balance in Redis.
  if (lines.length === 0 && (lastMicros !== usedMicros || lastHeldMicros !== heldMicros))
    lines.push({ kind: 'rebuild' });
  const texts = lines.map((line) =>
    beginEvent({ kind: 'rebuild', ...line, id: newId('evt'), billingId, workspaceId, usedMicros, heldMicros }),
  );
  const counted = sum(epochs.filter((one) => one.epoch < epoch).map(({ own }) => own.numbers));
  const told = accountInBooks(booked, voids, holds);
  return [usedMicros, heldMicros, counted, adjustments.own.last, told, texts.map((text) => text + END).join('')];
}

function holdKeys({ shard, workspaceId, externalMeterId }: BillingRef): string[] {
  return [
    keyspace.openHolds(shard, workspaceId, externalMeterId),
    keyspace.holdEnds(shard, workspaceId, externalMeterId),
  ];
}

/** Runs a script by the grant; gives what it answers behind its time. Throws an ApiError where the server fails or the shard is closed. */
async function write(
  redis: ShardedRedis,
  script: 'set-aside' | 'restore-holds' | 'rebuild',
  shard: number,
  keys: string[],
  args: (string | number)[],
  grant: WriteGrant,
): Promise<string[]> {
  const node = redis.node(shard);
  const all = [grant(shard).fence, node.notAfter(WITHIN_MS), ...args];
  const [status, , ...answer] = await node.script(script, [keyspace.meta(shard), ...keys], all, WITHIN_MS);
  if (status !== 'OK')
    throw new ApiError('redis_unavailable', { cause: new Error(`the ${script} script answered ${status}`) });
  return answer;
}
