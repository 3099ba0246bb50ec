import { EVENT_FIELD } from '../events/event.ts';
import { encodeRefusal, type Refusal } from '../events/outcome.ts';
import type { makeSealAddresses } from '../events/sealed-addresses.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { keyspace } from '../stores/keyspace.ts';
import { runPipeline } from '../stores/pipeline.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { chunks } from '../values/chunks.ts';
import { SHARDS } from '../values/key-text.ts';
import { MOST_CELLS, type Cell } from './refusal-counts.ts';

const SENT_WITHIN_MS = 1_000;
// A refusal has up to some 1,500 bytes; so many lines are made without a pause.
const LINES_PER_ENTRY = 25;
// One by one, those of a second.
const MOST_REFUSALS = 1_000;
// Counts of earlier minutes too, while nothing can be sent.
const MOST_WAITING = 2 * MOST_CELLS;

/** Counts and refusals that wait to be sent, and their way to the outbox. */
export function makeSender(
  redis: ShardedRedis,
  sealAddresses: ReturnType<typeof makeSealAddresses>,
  metrics: Metrics,
  random: () => number,
) {
  const cells = new Set<Cell>();
  const refusals = new Set<Refusal>();
  // Each time another one: a server that is unavailable then holds up no more than its share.
  let shard = Math.floor(random() * SHARDS);

  return {
    hasRoom: () => refusals.size < MOST_REFUSALS,
    addRefusal: (refusal: Refusal) => void refusals.add(refusal),
    addCount: (cell: Cell) => void cells.add(cell),
    /** Forgets the oldest counts of too many. */
    forget(): void {
      for (const cell of cells) {
        if (cells.size <= MOST_WAITING) return;
        metrics.droppedOutcomes.inc(cell.calls - cell.sent);
        cells.delete(cell);
      }
    },
    /** Appends all that waits now to the outbox. What was not answered waits on: sent twice, it is the same. */
    async send(): Promise<void> {
      const seal = await sealAddresses();
      for (const some of chunks([...refusals], LINES_PER_ENTRY)) {
        await append(some.map((one) => encodeRefusal({ ...one, address: one.address && seal(one.address, one.id) })));
        for (const one of some) refusals.delete(one);
      }
      for (const some of chunks([...cells], LINES_PER_ENTRY)) {
        const counted = some.map((cell) => ({ cell, calls: cell.calls }));
        await append(counted.map(({ cell, calls }) => `${cell.start}${calls}}`));
        for (const { cell, calls } of counted) {
          cell.sent = calls;
          // What was counted meanwhile is sent the next time.
          if (cell.calls === calls) cells.delete(cell);
        }
      }
    },
  };

  async function append(lines: string[]): Promise<void> {
    shard = (shard + 1) % SHARDS;
    const pipeline = redis.node(shard).client.pipeline();
    pipeline.xadd(keyspace.outbox(shard), '*', EVENT_FIELD, lines.join('\n'));
    // The count only steers a limit: should the process end in between, no harm is done.
    if (lines.length > 1) pipeline.incrby(keyspace.more(shard), lines.length - 1);
    await runPipeline(redis.clock, pipeline, SENT_WITHIN_MS);
  }
}
