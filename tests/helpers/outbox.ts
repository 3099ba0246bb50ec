import type { Redis } from 'ioredis';
import { decodeEvent, valueOfEntry, type UsageEvent } from '../../shared/events/event.ts';
import { isOutcome } from '../../shared/events/outcome.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';

/** The JSON of each usage event that waits in a shard's outbox, the oldest first; counts of refusals come at any time, and are none. */
export async function waitingEvents(redis: Redis, shard: number): Promise<string[]> {
  const entries = await redis.xrange(keyspace.outbox(shard), '-', '+');
  return entries.flatMap(([, fields]) => valueOfEntry(fields).split('\n')).filter((line) => !isOutcome(line));
}

/** Reads the events of an outbox entry. */
export function readEvents(entry: readonly string[]): UsageEvent[] {
  return valueOfEntry(entry).split('\n').map(decodeEvent);
}
