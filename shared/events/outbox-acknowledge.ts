import { keyspace, OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import type { Outbox, Round } from './outbox-entries.ts';
import { ANSWER_WITHIN_MS } from './outbox-round.ts';
import { chunks } from '../values/chunks.ts';

const IDS_PER_CALL = 500;
// Lua passes 8,000 arguments at most. No entry of ours has more than one field; its lines are set aside as one each.
const MOST_FIELDS_KEPT = 1_000;

/**
 * Acknowledges and deletes a round's entries, and sets aside what is no event in them. Entries that another server
 * delivered are left alone; whatever that server still holds for us is read and written again. Scripts do it, not
 * transactions: Redis takes no MULTI when it has reached its memory limit, and only this gives it memory again.
 */
export async function acknowledgeRound(
  { node, shards, streams }: Outbox,
  { runId, whole, spoiled }: Round,
  { metrics, log }: { metrics: Metrics; log: Logger },
): Promise<void> {
  if (node.runId() !== runId) return;
  const calls = streams.flatMap((stream, at) => chunks(whole[at]!, IDS_PER_CALL).map((some) => ({ stream, some })));
  await Promise.all(
    calls.map(({ stream, some }) => {
      const more = some.some((entry) => entry.more > 0) ? some.map((entry) => entry.more) : [];
      const args = [OUTBOX_GROUP, some.length, ...some.map(({ id }) => id), ...more];
      return node.script('acknowledge', [stream], args, ANSWER_WITHIN_MS);
    }),
  );
  for (let entry = spoiled[0]; entry; entry = spoiled[0]) {
    const { at, id, more, parts } = entry;
    const kept = parts.flatMap(({ fields, reason }) => {
      const some = fields.slice(0, MOST_FIELDS_KEPT);
      return [reason, some.length, ...some];
    });
    const keys = [streams[at]!, keyspace.dead(shards[at]!)];
    await node.script('reject', keys, [OUTBOX_GROUP, id, more, ...kept], ANSWER_WITHIN_MS);
    metrics.unreadableEvents.inc(parts.length);
    for (const { reason } of parts)
      log.error({ stream: streams[at], entry: id, reason }, 'what is no event in an outbox entry was set aside');
    spoiled.shift();
  }
}
