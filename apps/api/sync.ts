import { ApiError } from '../../shared/errors.ts';
import { keyspace } from '../../shared/keyspace.ts';
import type { Query, Sql } from '../../shared/postgres.ts';
import type { RedisLink } from '../../shared/redis.ts';
import { loadChanged, type Change, type Entry } from './entries.ts';

const APPLY_WITHIN_MS = 2_000;
const ENTRIES_PER_CALL = 100;
const CALLS_AT_ONCE = 64;

/** Writes the outbox rows of a transaction's changes; gives their ids. */
export async function recordChanges(sql: Query, changes: Change[]): Promise<number[]> {
  if (changes.length === 0) return [];
  const rows = changes.map(({ kind, entityId, shard }) => ({ kind, entityId, shard }));
  const recorded = await sql<{ id: number }[]>`insert into changes ${sql(rows)} returning id`;
  return recorded.map((row) => row.id);
}

/**
 * Brings committed changes into force. What is written is each entity as Postgres has it now, so it does not matter
 * how often or in which order changes are applied. Fails when a shard can't be written; the sweeper then tries again.
 */
export async function applyChanges(sql: Sql, link: RedisLink, changes: Change[]): Promise<void> {
  const fence = (shard: number) => link.node(shard).runId();
  for await (const entries of loadChanged(sql, changes)) await writeEntries(link, fence, entries);
}

/** Writes entries, in calls of one shard each, behind its fence: the run id of an open shard, the build token of a closed one. */
export async function writeEntries(link: RedisLink, fence: (shard: number) => string, entries: Entry[]): Promise<void> {
  const calls = Object.values(Object.groupBy(entries, (entry) => entry.shard)).flatMap((ofShard) =>
    chunks(ofShard!, ENTRIES_PER_CALL),
  );
  for (const together of chunks(calls, CALLS_AT_ONCE)) {
    await Promise.all(
      together.map(async (call) => {
        const { shard } = call[0]!;
        const node = link.node(shard);
        const keys = [keyspace.meta(shard), ...call.map((entry) => entry.key)];
        const values = call.flatMap((entry) => [entry.field, entry.value, entry.lifetimeSeconds]);
        const args = [fence(shard), node.notAfter(APPLY_WITHIN_MS), ...values];
        const [status] = await node.script('apply', keys, args, APPLY_WITHIN_MS);
        if (status !== 'OK')
          throw new ApiError('redis_away', { cause: new Error(`the apply script answered ${status}`) });
      }),
    );
  }
}

function chunks<T>(items: T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
