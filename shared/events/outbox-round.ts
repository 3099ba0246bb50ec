import { OUTBOX_GROUP } from '../stores/keyspace.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { isFull, readEntries, type WaitingEntries, type Outbox, type RawEntry, type Round } from './outbox-entries.ts';

// Redis serves no other client while it answers one of these reads. An entry has the events of up to sixteen verifications.
export const ENTRIES_PER_STREAM = 32;
export const BEGINNING = '0-0';
export const ANSWER_WITHIN_MS = 5_000;
const NEW = '>';
const WAIT_MS = 1_000;
const PAUSE_MS = 400;
const LOOK_EVERY_MS = 100;

/** Reads rounds: of each stream first what is pending under this consumer's name, then what is new. */
export function makeRoundReader({ node, streams, consumer }: Outbox, waiting: WaitingEntries) {
  let cursors: string[] = [];
  let nextRoundAt = 0;

  return {
    /** Starts again with the pending entries: an answer that delivered some may have been lost. */
    restart(): void {
      cursors = streams.map(() => BEGINNING);
      waiting.clear();
    },
    /** Returns when the batch is full, or has entries and the one before is 0.4 s old, or after 1 s without an entry. */
    async fill(round: Round, signal: AbortSignal): Promise<void> {
      const emptyUntil = node.clock.monotonic() + WAIT_MS;
      while (!isFull(round) && !signal.aborted) {
        const more = !waiting.isFull() && (await readOnce(round));
        await waiting.release(round);
        const until = round.entries > 0 ? nextRoundAt : waiting.isEmpty() ? emptyUntil : Infinity;
        const restMs = until - node.clock.monotonic();
        if (restMs <= 0) break;
        if (!more) await node.clock.sleep(Math.min(LOOK_EVERY_MS, restMs), signal).catch(() => {});
      }
      nextRoundAt = node.clock.monotonic() + PAUSE_MS;
    },
    /** Waits for the entries that wait for the disk, and adds them to a round. */
    async fillWithHeld(round: Round): Promise<void> {
      for (;;) {
        await waiting.release(round);
        if (waiting.isEmpty()) return;
        await node.clock.sleep(LOOK_EVERY_MS);
      }
    },
  };

  /**
   * Reads once from each stream and tells whether there is likely more. Each stream has a command of its own, because a
   * cluster refuses one command that reads streams of different slots.
   */
  async function readOnce(round: Round): Promise<boolean> {
    if (node.runId() !== round.runId) throw new Error('another redis server answers');
    const pipeline = node.client.pipeline();
    for (const [at, stream] of streams.entries()) {
      const cursor = cursors[at]!;
      pipeline.callBuffer(
        'XREADGROUP',
        'GROUP',
        OUTBOX_GROUP,
        consumer,
        'COUNT',
        ENTRIES_PER_STREAM,
        'STREAMS',
        stream,
        cursor,
      );
    }
    const answers = await withTimeout(node.clock, ANSWER_WITHIN_MS, pipeline.exec());
    let more = false;
    let failure: Error | undefined;
    for (const at of streams.keys()) {
      const [error, answer] = answers?.[at] ?? [new Error('no answer to XREADGROUP')];
      failure ??= error ?? undefined;
      const [, raw] = (answer as [stream: Buffer, RawEntry[]][] | null | undefined)?.[0] ?? ['', []];
      const entries = readEntries(raw);
      waiting.add(round, at, entries);
      const readsPending = cursors[at] !== NEW;
      if (readsPending && !error) cursors[at] = entries.at(-1)?.[0] ?? NEW;
      more ||= readsPending || entries.length === ENTRIES_PER_STREAM;
    }
    // Thrown only now: the entries that other streams delivered are pending under our name and belong to this round.
    if (failure) throw failure;
    return more;
  }
}
