import { keyspace, OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { withTimeout } from '../runtime/timeout.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import { ANSWER_WITHIN_MS, type Outbox, type Round } from './outbox-round.ts';

const IDS_PER_CALL = 500;

/**
 * Acknowledges and deletes a round's entries, both or neither: an entry that is acknowledged and not deleted would stay
 * forever. Entries that another server delivered are left alone; whatever that server still holds for us is read and
 * written again.
 */
export async function acknowledgeRound(
  { node, shards, streams }: Outbox,
  { runId, ids, unreadable }: Round,
  { metrics, log }: { metrics: Metrics; log: Logger },
): Promise<void> {
  if (node.runId() !== runId) return;
  const calls = streams.flatMap((stream, at) => chunks(ids[at]!, IDS_PER_CALL).map((some) => ({ stream, some })));
  await withTimeout(
    ANSWER_WITHIN_MS,
    Promise.all(calls.map(({ stream, some }) => remove(node.client.multi(), stream, some))),
  );
  // After the events: a Redis that is out of memory refuses these writes, and has memory again once the events are gone.
  for (let entry = unreadable[0]; entry; entry = unreadable[0]) {
    const { at, id, fields, reason } = entry;
    const dead = keyspace.dead(shards[at]!);
    const multi = node.client.multi().xadd(dead, '*', 'reason', reason, 'entry', id, ...fields);
    await withTimeout(ANSWER_WITHIN_MS, remove(multi, streams[at]!, [id]));
    metrics.unreadableEvents.inc();
    log.error({ stream: streams[at], entry: id, reason }, 'an outbox entry is not an event; it was set aside');
    unreadable.shift();
  }
}

/** Adds the removal of entries to a transaction and executes it. */
async function remove(multi: ReturnType<RedisNode['client']['multi']>, stream: string, ids: string[]): Promise<void> {
  const answers = await multi
    .xack(stream, OUTBOX_GROUP, ...ids)
    .xdel(stream, ...ids)
    .exec();
  if (!answers) throw new Error('the transaction was not executed');
  for (const [error] of answers) if (error) throw error;
}

function chunks<T>(items: T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
