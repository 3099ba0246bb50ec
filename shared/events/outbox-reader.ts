import { keyspace, OUTBOX_GROUP } from '../stores/keyspace.ts';
import { untilNext } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { makeDiskMark, type DiskMark } from '../stores/disk-mark.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import { SLOW_LOOK_MS } from '../stores/unless-written.ts';
import { acknowledgeRound, ANSWER_WITHIN_MS, isFull, waitForDisk, type Entry, type Round } from './outbox-entries.ts';
import type { Batch, Source } from './pump.ts';

type OutboxReaderOptions = {
  node: RedisNode;
  /** The shards that the server holds. */
  shards: number[];
  /** This consumer's name in its group. Each running consumer has its own. */
  name: string;
  metrics: Metrics;
  log: Logger;
  /** A consumer counts as dead once it has held an entry for this long. */
  claimIdleMs?: number;
  /** A consumer that holds no entry is removed from the group once it was not heard of for this long. */
  forgetIdleMs?: number;
  /** What the server has brought to its disk. */
  disk?: DiskMark;
};

// Redis serves no other client while it answers one of these reads. An entry has the events of up to sixteen verifications.
const ENTRIES_PER_STREAM = 32;
const BEGINNING = '0-0';
const NEW = '>';
const WAIT_MS = 1_000;
const PAUSE_MS = 400;
const LOOK_EVERY_MS = 100;
const LOOK_WHILE_IDLE_EVERY_MS = 250;
const CLAIM_EVERY_MS = 10_000;
const FORGET_EVERY_MS = 600_000;

/**
 * Reads the outbox streams of one server's shards, as a consumer of their group: of each first what is pending under its
 * name, then what is new. An event leaves the outbox only once it is on the server's disk and on the replicas that are
 * asked for: it must not outlive its debit.
 */
export function makeOutboxReader({
  node,
  shards,
  name,
  metrics,
  log,
  claimIdleMs = 30_000,
  forgetIdleMs = 3_600_000,
  disk = makeDiskMark(node),
}: OutboxReaderOptions): Source {
  const { clock } = node;
  const streams = shards.map(keyspace.outbox);
  const waiting = waitForDisk(disk, clock, shards);
  const some = ['COUNT', ENTRIES_PER_STREAM];
  const asConsumer = ['GROUP', OUTBOX_GROUP, name, ...some];
  // The server that the cursors belong to; '' when reading has to begin with the pending entries again.
  let begunOn = '';
  let cursors: string[] = [];
  let claimCursors: string[] = [];
  let nextRoundAt = 0;
  let nextClaimAt = 0;
  let nextForgetAt = 0;
  // What the server had been written when the streams were read to their end, and when they are read again all the same.
  let readTo = '';
  let readAgainAt = 0;

  return {
    async read(signal) {
      const round = startRound();
      try {
        if (round.runId !== begunOn) await begin(round.runId);
        await claimWhenDue(round);
        await fill(round, signal);
      } catch (error) {
        begunOn = '';
        if (round.entries.length === 0) throw error;
        log.warn({ error }, 'reading usage events was cut short');
      }
      return give(round);
    },
    // Left pending, what waits for the disk would wait until another consumer takes this one for dead.
    async rest() {
      const round = startRound();
      if (round.runId !== begunOn) return undefined;
      for (await waiting.release(round); !waiting.isEmpty(); await waiting.release(round))
        await clock.sleep(LOOK_EVERY_MS);
      return give(round);
    },
  };

  function startRound(): Round {
    return { runId: node.runId(), events: [], outcomes: [], entries: [], bytes: 0 };
  }

  /** Creates missing groups. Starts with the pending entries: an answer that delivered some may have been lost. */
  async function begin(runId: string): Promise<void> {
    await onEach((stream) => node.script('group', [stream], [OUTBOX_GROUP], ANSWER_WITHIN_MS));
    disk.restart(runId);
    waiting.clear();
    cursors = streams.map(() => BEGINNING);
    claimCursors = streams.map(() => BEGINNING);
    nextForgetAt = 0;
    readTo = '';
    begunOn = runId;
  }

  /** Returns when the batch is full, or has entries and the one before is 0.4 s old, or after 1 s without an entry. */
  async function fill(round: Round, signal: AbortSignal): Promise<void> {
    const emptyUntil = clock.monotonic() + untilNext(clock, WAIT_MS);
    while (!isFull(round) && !signal.aborted) {
      await disk.look();
      const more = !waiting.isFull() && (await readOnce(round));
      await waiting.release(round);
      const until = round.entries.length > 0 ? nextRoundAt : waiting.isEmpty() ? emptyUntil : Infinity;
      const restMs = until - clock.monotonic();
      if (restMs <= 0) break;
      const lookEveryMs = waiting.isEmpty() ? untilNext(clock, LOOK_WHILE_IDLE_EVERY_MS) : LOOK_EVERY_MS;
      if (!more) await clock.sleep(Math.min(lookEveryMs, restMs), signal).catch(() => {});
    }
    nextRoundAt = clock.monotonic() + PAUSE_MS;
  }

  /** Reads once from each stream, unless nobody has written since they were read to their end; tells whether there is likely more. */
  async function readOnce(round: Round): Promise<boolean> {
    const written = disk.written();
    if (written !== '' && written === readTo && clock.monotonic() < readAgainAt) return false;
    let more = false;
    await ask(
      round,
      (stream, at) => ['XREADGROUP', ...asConsumer, 'STREAMS', stream, cursors[at]!],
      (answer, at) => {
        const [, entries] = (answer as [stream: Buffer, Entry[]][] | null)?.[0] ?? ['', []];
        const readsPending = cursors[at] !== NEW;
        if (readsPending) cursors[at] = entries.at(-1)?.[0].toString('latin1') ?? NEW;
        more ||= readsPending || entries.length === ENTRIES_PER_STREAM;
        return entries;
      },
    );
    readTo = more ? '' : written;
    readAgainAt = clock.monotonic() + SLOW_LOOK_MS;
    return more;
  }

  /**
   * Takes over entries that another consumer has held for long: it is dead or too slow to wait for. A slow consumer's batch
   * is then written twice, which is harmless. Removes consumers that hold nothing and were not heard of for long: a
   * container that starts under a new name would otherwise leave one behind in each stream.
   */
  async function claimWhenDue(round: Round): Promise<void> {
    if (clock.monotonic() < nextClaimAt || node.runId() !== round.runId) return;
    let claimed = 0;
    await ask(
      round,
      (stream, at) => ['XAUTOCLAIM', stream, OUTBOX_GROUP, name, claimIdleMs, claimCursors[at]!, ...some],
      (answer, at) => {
        const [next, entries] = answer as [Buffer, Entry[]];
        claimCursors[at] = next.toString();
        claimed += entries.length;
        return entries;
      },
    );
    nextClaimAt = claimed > 0 ? 0 : clock.monotonic() + CLAIM_EVERY_MS;
    if (claimed > 0) log.info({ entries: claimed }, 'took over entries that were pending for long');
    else if (clock.monotonic() >= nextForgetAt) await forget();
  }

  async function forget(): Promise<void> {
    nextForgetAt = clock.monotonic() + FORGET_EVERY_MS;
    const answers = await onEach((stream) =>
      node.script('forget', [stream], [OUTBOX_GROUP, forgetIdleMs], ANSWER_WITHIN_MS),
    );
    const removed = answers.reduce((sum, [, , count]) => sum + Number(count), 0);
    if (removed > 0) log.info({ removed }, 'removed consumers that were not heard of for long');
  }

  /** Takes entries of each stream by a command of its own: a cluster refuses one command for streams of different slots. */
  async function ask(
    round: Round,
    commandFor: (stream: string, at: number) => (string | number)[],
    entriesIn: (answer: unknown, at: number) => Entry[],
  ): Promise<void> {
    if (node.runId() !== round.runId) throw new Error('another redis server answers');
    const pipeline = node.client.pipeline();
    for (const [at, stream] of streams.entries()) {
      const [command, ...args] = commandFor(stream, at) as [string, ...string[]];
      pipeline.callBuffer(command, ...args);
    }
    const answers = await withTimeout(clock, ANSWER_WITHIN_MS, pipeline.exec());
    let failure: Error | undefined;
    for (const at of streams.keys()) {
      const [error, answer] = answers?.[at] ?? [new Error('redis did not answer for a stream')];
      failure ??= error ?? undefined;
      if (!error) waiting.add(round, at, entriesIn(answer, at));
    }
    // Thrown only now: the entries that other streams delivered are pending under our name and belong to this round.
    if (failure) throw failure;
  }

  async function give(round: Round): Promise<Batch | undefined> {
    if (round.entries.length === 0) return undefined;
    try {
      await waitForReplicas(round);
    } catch (error) {
      // The entries are pending under our name and come again.
      begunOn = '';
      throw error;
    }
    return {
      events: round.events,
      outcomes: round.outcomes,
      acknowledge: () => acknowledgeRound({ node, shards, streams }, round, { metrics, log }),
    };
  }

  /**
   * Waits until the replicas have a round's entries. If a replica without them took over, their debits would be undone:
   * the books would then hold the event of the lost call beside the event of its repetition.
   */
  async function waitForReplicas({ runId, entries }: Round): Promise<void> {
    const { at, id } = entries.at(-1)!;
    // WAIT counts this connection's own writes, and entries that an earlier connection was given were only read on this
    // one. Claiming one of them is a write.
    const write = () => node.client.xclaim(streams[at]!, OUTBOX_GROUP, name, 0, id, 'JUSTID');
    await withTimeout(clock, ANSWER_WITHIN_MS, node.copied(runId, write));
  }

  function onEach<Result>(work: (stream: string) => Promise<Result>): Promise<Result[]> {
    return Promise.all(streams.map(work));
  }
}
