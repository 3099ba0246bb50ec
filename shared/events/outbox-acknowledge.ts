import { keyspace, OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import { chunks } from '../values/chunks.ts';
import { ANSWER_WITHIN_MS, type Round } from './outbox-entries.ts';

const IDS_PER_CALL = 500;
// Lua passes 8,000 arguments at most. No entry of ours has more than one field; its lines are set aside as one each.
const MOST_FIELDS_KEPT = 1_000;

/**
 * Acknowledges and deletes a round's entries, and sets aside what is no event in them. Entries that another server
 * delivered are left alone; whatever that server still holds for us is read and written again. Scripts do it, not
 * transactions: Redis takes no MULTI when it has reached its memory limit, and only this gives it memory again.
 */
export async function acknowledgeRound(
  { node, shards, streams }: { node: RedisNode; shards: number[]; streams: string[] },
  { runId, entries }: Round,
  { metrics, log }: { metrics: Metrics; log: Logger },
): Promise<void> {
  if (node.runId() !== runId) return;
  const whole = entries.filter(({ unreadable }) => unreadable.length === 0);
  const ofStreams = [...Map.groupBy(whole, ({ at }) => at)];
  await Promise.all(
    ofStreams.flatMap(([at, all]) =>
      chunks(all, IDS_PER_CALL).map((some) => {
        const more = some.some((entry) => entry.more > 0) ? some.map((entry) => entry.more) : [];
        const args = [OUTBOX_GROUP, some.length, ...some.map(({ id }) => id), ...more];
        return node.script('acknowledge', [streams[at]!], args, ANSWER_WITHIN_MS);
      }),
    ),
  );
  for (const entry of entries) {
    const { at, id, more, unreadable } = entry;
    if (unreadable.length === 0) continue;
    const kept = unreadable.flatMap(({ fields, reason }) => {
      const some = fields.slice(0, MOST_FIELDS_KEPT);
      return [reason, some.length, ...some];
    });
    const keys = [streams[at]!, keyspace.dead(shards[at]!)];
    await node.script('reject', keys, [OUTBOX_GROUP, id, more, ...kept], ANSWER_WITHIN_MS);
    metrics.unreadableEvents.inc(unreadable.length);
    for (const { reason } of unreadable)
      log.error({ stream: streams[at], entry: id, reason }, 'what is no event in an outbox entry was set aside');
    // Should the next one fail, all are acknowledged once more, and this one is not set aside again.
    entry.unreadable = [];
  }
}
