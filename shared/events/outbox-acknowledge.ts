import { keyspace, OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import type { Outbox, Round } from './outbox-entries.ts';
import { ANSWER_WITHIN_MS } from './outbox-round.ts';

const IDS_PER_CALL = 500;
// Lua passes 8,000 arguments at most. No entry of ours has more than one field.
const MOST_FIELDS_KEPT = 1_000;

/**
 * Acknowledges and deletes a round's entries, and sets those aside that are no events. Entries that another server
 * delivered are left alone; whatever that server still holds for us is read and written again. Scripts do it, not
 * transactions: Redis takes no MULTI when it has reached its memory limit, and only this gives it memory again.
 */
export async function acknowledgeRound(
  { node, shards, streams }: Outbox,
  { runId, ids, unreadable }: Round,
  { metrics, log }: { metrics: Metrics; log: Logger },
): Promise<void> {
  if (node.runId() !== runId) return;
  const calls = streams.flatMap((stream, at) => chunks(ids[at]!, IDS_PER_CALL).map((some) => ({ stream, some })));
  await Promise.all(
    calls.map(({ stream, some }) => node.script('acknowledge', [stream], [OUTBOX_GROUP, ...some], ANSWER_WITHIN_MS)),
  );
  for (let entry = unreadable[0]; entry; entry = unreadable[0]) {
    const { at, id, fields, reason } = entry;
    const kept = fields.slice(0, MOST_FIELDS_KEPT);
    const keys = [streams[at]!, keyspace.dead(shards[at]!)];
    await node.script('reject', keys, [OUTBOX_GROUP, id, reason, ...kept], ANSWER_WITHIN_MS);
    metrics.unreadableEvents.inc();
    log.error({ stream: streams[at], entry: id, reason }, 'an outbox entry is not an event; it was set aside');
    unreadable.shift();
  }
}

function chunks<T>(items: T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) => items.slice(i * size, (i + 1) * size));
}
