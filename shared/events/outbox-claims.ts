import { OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import { withTimeout } from '../runtime/timeout.ts';
import {
  addEntries,
  ANSWER_WITHIN_MS,
  BEGINNING,
  ENTRIES_PER_BATCH,
  ENTRIES_PER_STREAM,
  type Entry,
  type Outbox,
  type Round,
} from './outbox-round.ts';

const CLAIM_EVERY_MS = 10_000;

/**
 * Takes over entries that another consumer has held for `idleMs`: it is dead or too slow to wait for. A slow
 * consumer's batch is then written twice, which is harmless.
 */
export function makeClaimer({ node, streams, consumer }: Outbox, idleMs: number, log: Logger) {
  let cursors: string[] = [];
  let nextClaimAt = 0;

  return {
    restart(): void {
      cursors = streams.map(() => BEGINNING);
    },
    async claimWhenDue(round: Round): Promise<void> {
      if (performance.now() < nextClaimAt || node.runId() !== round.runId) return;
      let before: number;
      do {
        before = round.entries;
        await claimOnce(round);
      } while (round.entries > before && round.entries < ENTRIES_PER_BATCH);
      if (round.entries > 0) log.info({ entries: round.entries }, 'took over entries that were pending for long');
      nextClaimAt = round.entries > before ? 0 : performance.now() + CLAIM_EVERY_MS;
    },
  };

  async function claimOnce(round: Round): Promise<void> {
    const pipeline = node.client.pipeline();
    for (const [at, stream] of streams.entries()) {
      pipeline.xautoclaim(stream, OUTBOX_GROUP, consumer, idleMs, cursors[at]!, 'COUNT', ENTRIES_PER_STREAM);
    }
    const answers = await withTimeout(ANSWER_WITHIN_MS, pipeline.exec());
    for (const at of streams.keys()) {
      const [error, answer] = answers?.[at] ?? [new Error('no answer to XAUTOCLAIM')];
      if (error) throw error;
      const [next, entries] = answer as [string, Entry[]];
      cursors[at] = next;
      addEntries(round, at, entries);
    }
  }
}
