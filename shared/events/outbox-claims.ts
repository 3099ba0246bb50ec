import { OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { isFull, readEntries, type WaitingEntries, type Outbox, type RawEntry, type Round } from './outbox-entries.ts';
import { ANSWER_WITHIN_MS, BEGINNING, ENTRIES_PER_STREAM } from './outbox-round.ts';

const CLAIM_EVERY_MS = 10_000;
const FORGET_EVERY_MS = 600_000;

export type ClaimerOptions = {
  waiting: WaitingEntries;
  /** A consumer counts as dead once it has held an entry for this long. */
  claimIdleMs: number;
  /** A consumer that holds no entry is removed once it was not heard of for this long. */
  forgetIdleMs: number;
  log: Logger;
};

/**
 * Takes over entries that another consumer has held for long: it is dead or too slow to wait for. A slow consumer's batch is
 * then written twice, which is harmless. Removes consumers that hold nothing and were not heard of for long: a container
 * that starts under a new name would otherwise leave one behind in each stream.
 */
export function makeClaimer({ node, streams, consumer }: Outbox, options: ClaimerOptions) {
  const { waiting, claimIdleMs, forgetIdleMs, log } = options;
  let cursors: string[] = [];
  let nextClaimAt = 0;
  let nextForgetAt = 0;

  return {
    restart(): void {
      cursors = streams.map(() => BEGINNING);
      nextForgetAt = 0;
    },
    async claimWhenDue(round: Round): Promise<void> {
      if (node.clock.monotonic() < nextClaimAt || node.runId() !== round.runId) return;
      let claimed = 0;
      let last: number;
      do {
        last = await claimOnce(round);
        claimed += last;
      } while (last > 0 && !isFull(round) && !waiting.isFull());
      if (claimed > 0) log.info({ entries: claimed }, 'took over entries that were pending for long');
      if (last === 0 && node.clock.monotonic() >= nextForgetAt) await forget();
      nextClaimAt = last > 0 ? 0 : node.clock.monotonic() + CLAIM_EVERY_MS;
    },
  };

  /** Returns how many entries it took over. */
  async function claimOnce(round: Round): Promise<number> {
    let claimed = 0;
    const pipeline = node.client.pipeline();
    for (const [at, stream] of streams.entries()) {
      pipeline.callBuffer(
        'XAUTOCLAIM',
        stream,
        OUTBOX_GROUP,
        consumer,
        claimIdleMs,
        cursors[at]!,
        'COUNT',
        ENTRIES_PER_STREAM,
      );
    }
    const answers = await withTimeout(node.clock, ANSWER_WITHIN_MS, pipeline.exec());
    for (const at of streams.keys()) {
      const [error, answer] = answers?.[at] ?? [new Error('no answer to XAUTOCLAIM')];
      if (error) throw error;
      const [next, entries] = answer as [Buffer, RawEntry[]];
      cursors[at] = next.toString();
      waiting.add(round, at, readEntries(entries));
      claimed += entries.length;
    }
    return claimed;
  }

  async function forget(): Promise<void> {
    nextForgetAt = node.clock.monotonic() + FORGET_EVERY_MS;
    const answers = await Promise.all(
      streams.map((stream) => node.script('forget', [stream], [OUTBOX_GROUP, forgetIdleMs], ANSWER_WITHIN_MS)),
    );
    const removed = answers.reduce((sum, [, , count]) => sum + Number(count), 0);
    if (removed > 0) log.info({ removed }, 'removed consumers that were not heard of for long');
  }
}
