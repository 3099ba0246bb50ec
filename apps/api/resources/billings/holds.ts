import type { Redis } from 'ioredis';
import type { Clock } from '../../../../shared/runtime/clock.ts';
import type { BillingRef } from '../../../../shared/books/billing-refs.ts';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { withTimeout } from '../../../../shared/runtime/timeout.ts';
import { END } from '../../../../shared/stores/fields.ts';
import { requireOpen } from '../../../../shared/stores/fence.ts';
import { keyspace } from '../../../../shared/stores/keyspace.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';

/** An open hold as Redis has it; `id` is its place in the order of their ends. */
export type OpenHold = {
  id: string;
  holdId: string;
  micros: number;
  endsAtMs: number;
  onExpiry: string;
  openedMs: number;
  epoch: string;
  keyId: string;
  usageName: string;
};

const WITHIN_MS = 2_000;

/** Reads the next open holds of a billing record after a place, those that end first, first. 503 where the shard is closed. */
export async function readOpenHolds(
  redis: ShardedRedis,
  { shard, workspaceId, externalMeterId }: BillingRef,
  after: string,
  take: number,
): Promise<OpenHold[]> {
  await requireOpen(redis, WITHIN_MS, [shard]);
  const { client } = redis.node(shard);
  const [ends, holds] = [keyspace.holdEnds, keyspace.openHolds].map((name) =>
    name(shard, workspaceId, externalMeterId),
  );
  const found: OpenHold[] = [];
  let place = after;
  while (found.length < take) {
    const next = await within(redis.clock, placesAfter(client, ends!, place, take - found.length));
    if (next.length === 0) break;
    const texts = await within(redis.clock, client.hmget(holds!, ...next.map(holdOf)));
    // One that was settled in between has no text any more.
    for (const [i, text] of texts.entries()) if (text !== null) found.push(readOpenHold(next[i]!, text));
    place = next.at(-1)!;
  }
  return found;
}

// A place is the end of a hold and its 26 characters: several may end in one ms.
const holdOf = (place: string) => place.slice(place.indexOf('-') + 1);

async function placesAfter(client: Redis, ends: string, after: string, take: number): Promise<string[]> {
  const [atMs = ''] = after.split('-');
  // At most as many as a record may have, 10,000.
  const sameMs = atMs === '' ? [] : await client.zrange(ends, atMs, atMs, 'BYSCORE');
  const rest = sameMs.map((id) => `${atMs}-${id}`).filter((place) => place > after);
  if (rest.length >= take) return rest.slice(0, take);
  const from = atMs === '' ? '-inf' : `(${atMs}`;
  const later = await client.zrange(ends, from, '+inf', 'BYSCORE', 'LIMIT', 0, take - rest.length, 'WITHSCORES');
  for (let i = 0; i < later.length; i += 2) rest.push(`${later[i + 1]}-${later[i]}`);
  return rest;
}

function readOpenHold(place: string, text: string): OpenHold {
  const [micros, endsAtMs, onExpiry = '', , openedMs, epoch = '', keyId = '', usageName = ''] = text.split(END);
  return {
    id: place,
    holdId: holdOf(place),
    micros: Number(micros),
    endsAtMs: Number(endsAtMs),
    onExpiry,
    openedMs: Number(openedMs),
    epoch,
    keyId,
    usageName,
  };
}

async function within<T>(clock: Clock, asked: Promise<T>): Promise<T> {
  return withTimeout(clock, WITHIN_MS, asked).catch((cause: unknown) => {
    throw new ApiError('redis_unavailable', { cause });
  });
}
