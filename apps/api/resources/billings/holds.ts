import type { BillingRef } from '../../../../shared/books/billing-refs.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { withTimeout } from '../../../../shared/runtime/timeout.ts';
import { END } from '../../../../shared/stores/fields.ts';
import { requireOpen } from '../../../../shared/stores/fence.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { chunks } from '../../../../shared/values/chunks.ts';

/** An open hold as Redis has it; `id` is its place in the order of their ends. */
export type OpenHold = ReturnType<typeof readOpenHold>;

const WITHIN_MS = 2_000;
const HOLDS_AT_ONCE = 200;

/**
 * Reads the open holds of a billing record, at most 10,000, those that end first, first, in steps that keep Redis from others for a
 * moment alone. 503 where the shard is closed.
 */
export async function readOpenHolds(
  redis: ShardedRedis,
  { shard, workspaceId, externalMeterId }: BillingRef,
): Promise<OpenHold[]> {
  await requireOpen(redis, WITHIN_MS, [shard]);
  const { client } = redis.node(shard);
  const name = keyspace.openHolds(shard, workspaceId, externalMeterId);
  // A scan may give one twice.
  const found = new Map<string, OpenHold>();
  let cursor = '0';
  do {
    const scanned = client.hscan(name, cursor, 'COUNT', HOLDS_AT_ONCE);
    const [next, fields] = await withTimeout(redis.clock, WITHIN_MS, scanned).catch((cause: unknown) => {
      throw new ApiError('redis_unavailable', { cause });
    });
    for (const [holdId, text] of chunks(fields, 2)) found.set(holdId!, readOpenHold(holdId!, text!));
    cursor = next;
  } while (cursor !== '0');
  return [...found.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

// A place is the end of a hold and its 26 characters: several may end in one ms.
function readOpenHold(holdId: string, text: string) {
  const fields = text.split(END) as [string, string, string, string, string, string, string, string];
  const [micros, endsAtMs, onExpiry, , openedMs, epoch, keyId, usageName] = fields;
  return { id: `${endsAtMs}-${holdId}`, holdId, micros, endsAtMs, openedMs, onExpiry, epoch, keyId, usageName };
}
