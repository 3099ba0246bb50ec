import { keyspace, OUTBOX_GROUP } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { makeDiskMark, type DiskMark } from '../stores/disk-mark.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import { acknowledgeRound } from './outbox-acknowledge.ts';
import { makeClaimer } from './outbox-claims.ts';
import { waitForDisk, startRound, type Outbox, type Round } from './outbox-entries.ts';
import { ANSWER_WITHIN_MS, makeRoundReader } from './outbox-round.ts';
import type { Batch, Source } from './source.ts';

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

const CLAIM_IDLE_MS = 30_000;
const FORGET_IDLE_MS = 3_600_000;

/**
 * Reads the outbox streams of one server's shards, as a consumer of their group. An event leaves the outbox only once it is
 * on the server's disk and on the replicas that are asked for: it must not outlive its debit.
 */
export function makeOutboxReader(options: OutboxReaderOptions): Source {
  const { node, shards, name, metrics, log, claimIdleMs = CLAIM_IDLE_MS, forgetIdleMs = FORGET_IDLE_MS } = options;
  const { disk = makeDiskMark(node) } = options;
  const outbox: Outbox = { node, shards, streams: shards.map(keyspace.outbox), consumer: name };
  const waiting = waitForDisk(disk, node.clock);
  const reader = makeRoundReader(outbox, waiting);
  const claimer = makeClaimer(outbox, { waiting, claimIdleMs, forgetIdleMs, log });
  // The server that the cursors belong to; '' when reading has to begin with the pending entries again.
  let begunOn = '';

  return {
    async read(signal) {
      const round = startRound(outbox);
      try {
        if (round.runId !== begunOn) await begin(round.runId);
        await claimer.claimWhenDue(round);
        await reader.fill(round, signal);
      } catch (error) {
        begunOn = '';
        if (round.entries === 0) throw error;
        log.warn({ error }, 'reading usage events was cut short');
      }
      return give(round);
    },
    // Left pending, they would wait until another consumer takes this one for dead.
    async rest() {
      const round = startRound(outbox);
      if (round.runId === begunOn) await reader.fillWithHeld(round);
      return give(round);
    },
  };

  async function give(round: Round): Promise<Batch | undefined> {
    if (round.entries === 0) return undefined;
    try {
      await waitForReplicas(outbox, round);
    } catch (error) {
      // The entries are pending under our name and come again.
      begunOn = '';
      throw error;
    }
    const { events, outcomes } = round;
    return { events, outcomes, acknowledge: () => acknowledgeRound(outbox, round, { metrics, log }) };
  }

  async function begin(runId: string): Promise<void> {
    await createGroups(outbox);
    disk.restart(runId);
    reader.restart();
    claimer.restart();
    begunOn = runId;
  }
}

/** Creates missing groups. */
async function createGroups({ node, streams }: Outbox): Promise<void> {
  await Promise.all(streams.map((stream) => node.script('group', [stream], [OUTBOX_GROUP], ANSWER_WITHIN_MS)));
}

/**
 * Waits until the replicas have a round's entries. If a replica without them took over, their debits would be undone:
 * the books would then hold the event of the lost call beside the event of its repetition.
 */
async function waitForReplicas({ node, streams, consumer }: Outbox, { runId, whole, spoiled }: Round): Promise<void> {
  const at = whole.findIndex((some) => some.length > 0);
  const last = at < 0 ? spoiled.at(-1) : { at, id: whole[at]!.at(-1)!.id };
  if (!last) return;
  // WAIT counts this connection's own writes, and entries that an earlier connection was given were only read on this
  // one. Claiming one of them is a write.
  const write = () => node.client.xclaim(streams[last.at]!, OUTBOX_GROUP, consumer, 0, last.id, 'JUSTID');
  await withTimeout(node.clock, ANSWER_WITHIN_MS, node.copied(runId, write));
}
