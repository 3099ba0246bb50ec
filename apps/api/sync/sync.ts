import { ApiError } from '../../../shared/contract/errors.ts';
import { noteUnsettled } from '../../../shared/books/rebuilding/unsettled-records.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { versionOf } from '../../../shared/stores/records.ts';
import type { Query, Sql } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { chunks } from '../../../shared/values/chunks.ts';
import { applyAdjustments } from './adjustments.ts';
import {
  WRITE_WITHIN_MS,
  type Change,
  type Entry,
  type StoredChange,
  type EntityKind,
  type Selection,
} from './change.ts';
import { loadBillings } from './loaders/billings.ts';
import { loadKeys, loadPointers } from './loaders/keys.ts';
import { loadTokens } from './loaders/tokens.ts';
import { loadWorkspaces, loadScopes } from './loaders/workspaces.ts';

const APPLY_WITHIN_MS = 2_000;
// A call of so many entries, or bytes of lists, keeps Redis from others for about a millisecond.
const ENTRIES_PER_CALL = 100;
const BYTES_PER_CALL = 50_000;
const CALLS_AT_ONCE = 64;

/** The right to write entries. */
export type EntryGrant = {
  /** What the script compares with the shard's owner: the run id of an open shard, the build token of a closed one. */
  fence(shard: number): string;
  /** The id of the last change that the entries contain. */
  change: number;
  /** The Redis time until which they may be written; a builder's right ends with its token instead. */
  notAfter?: (shard: number) => number;
};

/** Writes a transaction's changes into the table `changes`; returns their ids. */
export async function recordChanges(sql: Query, changes: Change[]): Promise<number[]> {
  if (changes.length === 0) return [];
  const recorded = await sql<{ id: number }[]>`
    insert into changes (kind, entity_id, shard)
    select * from unnest(${changes.map(({ kind }) => kind)}::text[], ${changes.map(({ entityId }) => entityId)}::text[],
                         ${changes.map(({ shard }) => shard)}::smallint[])
    returning id`;
  return recorded.map((row) => row.id);
}

/**
 * Brings committed changes into force. It writes each entity as Postgres has it now, so it does not matter how often or
 * in which order changes are applied. It fails when a shard cannot be written; the sweeper then tries again. Gives the
 * changes that have to wait, because the balance of a record is not known in Redis.
 */
export async function applyChanges(sql: Sql, redis: ShardedRedis, changes: StoredChange[]): Promise<StoredChange[]> {
  const grant = {
    fence: (shard: number) => redis.node(shard).runId(),
    change: Math.max(0, ...changes.map((change) => change.id)),
    notAfter: writeDeadline(redis, changes),
  };
  const write = async (some: (Change & { id?: number })[]) => {
    for await (const entries of loadChanged(sql, some)) await writeEntries(sql, redis, grant, entries);
  };
  await write(changes);
  const adjusted = changes.filter((change) => change.kind === 'adjustment').map((change) => change.entityId);
  if (adjusted.length === 0) return [];
  const notApplied = await applyAdjustments({ sql, redis, write }, adjusted);
  return changes.filter((change) => change.kind === 'adjustment' && notApplied.has(change.entityId));
}

/** Writes entries, one shard per call. Throws when Redis has a newer version of an entry than Postgres. */
export async function writeEntries(sql: Sql, redis: ShardedRedis, grant: EntryGrant, entries: Entry[]): Promise<void> {
  const calls = Object.values(Object.groupBy(entries, (entry) => entry.shard)).flatMap((ofShard) => callsOf(ofShard!));
  for (const together of chunks(calls, CALLS_AT_ONCE)) {
    const notWritten = (await Promise.all(together.map((call) => write(redis, grant, call)))).flat();
    const { newer = [], damaged = [] } = Object.groupBy(notWritten, ({ version }) => (version ? 'newer' : 'damaged'));
    if (newer.length > 0) await requireKnown(sql, newer);
    await putBack(
      sql,
      damaged.map(({ entry }) => entry),
    );
  }
}

/** The shards that changes are for; undefined: all. */
export function shardsOf(changes: Change[]): number[] | undefined {
  const shards = new Set(changes.map(({ shard }) => shard));
  return shards.has(null) ? undefined : ([...shards] as number[]);
}

/** Counts from before the entries are loaded: a process that stops between loading and writing must not write later. */
function writeDeadline(redis: ShardedRedis, changes: StoredChange[]): (shard: number) => number {
  const deadlines = new Map(
    [...redis.byNode(shardsOf(changes)).keys()].map((node) => [node, node.notAfter(WRITE_WITHIN_MS)]),
  );
  return (shard) => deadlines.get(redis.node(shard)) ?? 0;
}

/**
 * Puts changes back of entries whose name in Redis something else holds: they are tried again every minute, and hold up
 * nothing meanwhile, nor the checkpoints. One that waits already waits for all. Of billing records, whose verifications get 503, the operator is told until they are repaired.
 */
async function putBack(sql: Sql, entries: Entry[]): Promise<void> {
  if (entries.length === 0) return;
  await sql`
    insert into changes (kind, entity_id, shard, created_at, is_put_back)
    select distinct kind, id, shard, now() + interval '1 minute', true
    from unnest(${entries.map(({ kind }) => kind)}::text[], ${entries.map(({ id }) => id)}::text[],
                ${entries.map(({ shard }) => shard)}::smallint[]) as entry (kind, id, shard)
    where not exists (
      select from changes c
      where c.entity_id = entry.id and c.kind = entry.kind and c.shard = entry.shard and c.applied_at is null and c.created_at > now())`;
  await noteUnsettled(
    sql,
    entries.filter(({ kind }) => kind === 'billing').map(({ id }) => id),
  );
}

/** An entry of which Redis has a newer version, or whose name something else holds: then this is NaN. */
type NotWritten = { entry: Entry; version: number };

/** Writes entries of one shard; returns those that were not written. */
async function write(
  redis: ShardedRedis,
  { fence, change, notAfter }: EntryGrant,
  call: Entry[],
): Promise<NotWritten[]> {
  const { shard } = call[0]!;
  const node = redis.node(shard);
  const keys = [keyspace.meta(shard), ...call.map((entry) => entry.key)];
  const values = call.flatMap((entry) => [entry.field, entry.value, entry.lifetimeSeconds]);
  const deadline = Math.min(node.notAfter(APPLY_WITHIN_MS), notAfter?.(shard) ?? Infinity);
  const args = [fence(shard), deadline, change, ...values];
  const [status, , ...notWritten] = await node.script('apply', keys, args, APPLY_WITHIN_MS);
  if (status !== 'OK')
    throw new ApiError('redis_unavailable', { cause: new Error(`the apply script answered ${status}`) });
  // The script answers positions in KEYS, which count from 1 and begin with meta.
  return chunks(notWritten, 2).map(([i, version]) => ({ entry: call[Number(i) - 2]!, version: Number(version) }));
}

/**
 * Throws unless Postgres has the newer versions that Redis has. Another process may have read and written them after our
 * read; then Postgres has them by now. If it does not, Postgres was restored from a backup.
 */
async function requireKnown(sql: Sql, newer: NotWritten[]): Promise<void> {
  const changes = newer.map(({ entry }) => ({ kind: entry.kind, entityId: entry.id, shard: entry.shard }));
  // All entries of an entity have its version; one that ended since is no longer among them.
  const known = new Map<string, number>();
  for await (const entries of loadChanged(sql, changes)) {
    for (const { kind, id, value } of entries) known.set(`${kind} ${id}`, versionOf(value));
  }
  const unknown = newer.find(({ entry, version }) => version > (known.get(`${entry.kind} ${entry.id}`) ?? 0));
  if (!unknown) return;
  const { kind, id } = unknown.entry;
  throw new ApiError('postgres_stale', { cause: new Error(`Redis has a newer version of ${kind} ${id}`) });
}

function callsOf(entries: Entry[]): Entry[][] {
  const calls: Entry[][] = [];
  let bytes = Infinity;
  for (const entry of entries) {
    const call = calls.at(-1);
    bytes += entry.value.length;
    if (call && call.length < ENTRIES_PER_CALL && bytes <= BYTES_PER_CALL) call.push(entry);
    else {
      calls.push([entry]);
      bytes = entry.value.length;
    }
  }
  return calls;
}

/** The entries of some changed entities, and of the secrets that these very changes ended. */
export async function* loadChanged(sql: Query, changes: (Change & { id?: number })[]): AsyncGenerator<Entry[]> {
  for (const kind of kindsInOrder) {
    const ofKind = changes.filter((change) => change.kind === kind);
    if (ofKind.length === 0) continue;
    const ids = [...new Set(ofKind.map((change) => change.entityId))];
    const changeIds = ofKind.flatMap(({ id }) => (id === undefined ? [] : [id]));
    const loaded = loaders[kind](sql, { ids, changeIds });
    yield* kind === 'key' ? ofNamedShards(loaded, ofKind) : loaded;
  }
}

/** The entries of everything that an empty shard needs: what is gone is not among them. */
export async function* loadShard(sql: Query, shard: number): AsyncGenerator<Entry[]> {
  for (const kind of kindsInOrder) yield* loaders[kind](sql, { shard });
  yield* loadPointers(sql, { shard });
}

// Workspaces and scopes come before the keys that refer to them.
const kindsInOrder = ['token', 'workspace', 'scope', 'billing', 'key'] as const satisfies EntityKind[];
const loaders: Record<EntityKind, (sql: Query, selection: Selection) => AsyncGenerator<Entry[]>> = {
  token: loadTokens,
  workspace: loadWorkspaces,
  scope: loadScopes,
  billing: loadBillings,
  key: loadKeys,
};

/** A key that was imported may have a pointer in a second shard: either may be closed, and a change names what it wrote. */
async function* ofNamedShards(loaded: AsyncGenerator<Entry[]>, changes: Change[]): AsyncGenerator<Entry[]> {
  const named = new Set(changes.map(({ entityId, shard }) => `${entityId} ${shard}`));
  for await (const entries of loaded) {
    yield entries.filter(({ id, shard }) => named.has(`${id} ${shard}`) || named.has(`${id} null`));
  }
}
