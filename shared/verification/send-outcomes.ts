import { EVENT_FIELD } from '../events/event.ts';
import { encodeRefusal, type Refusal } from '../events/outcome.ts';
import type { makeSealAddresses, OfAddress } from '../events/sealed-addresses.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { keyspace } from '../stores/keyspace.ts';
import { runPipeline } from '../stores/pipeline.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { SHARDS } from '../values/key-text.ts';
import { MOST_CELLS, type Cell } from './refusal-counts.ts';

const SENT_WITHIN_MS = 1_000;
// An entry of the outbox; so many lines are made without a pause.
const LINES_PER_ENTRY = 100;
const BYTES_PER_ENTRY = 32_000;
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
  let cells: Cell[] = [];
  let refusals: Refusal[] = [];
  // Each time another one: a server that is unavailable then holds up no more than its share.
  let shard = Math.floor(random() * SHARDS);

  return {
    hasRoom: () => refusals.length < MOST_REFUSALS,
    addRefusal: (refusal: Refusal) => void refusals.push(refusal),
    addCount(cell: Cell): void {
      if (cell.waits) return;
      cell.waits = true;
      cells.push(cell);
    },
    /** Forgets the oldest counts of too many. */
    forget(): void {
      for (const { calls, sent } of cells.splice(0, cells.length - MOST_WAITING))
        metrics.droppedOutcomes.inc(calls - sent);
    },
    /** Appends all that waits now to the outbox. What was not answered waits on: sent twice, it is the same. */
    async send(): Promise<void> {
      const [dueRefusals, dueCells] = [refusals, cells];
      [refusals, cells] = [[], []];
      let [sentRefusals, sentCells] = [0, 0];
      try {
        const seal = dueRefusals.some(({ address }) => address !== '') ? await sealAddresses() : noAddress;
        while (sentRefusals < dueRefusals.length || sentCells < dueCells.length) {
          const lines = takeLines(dueRefusals, sentRefusals, seal);
          const counted = lines.length === 0 ? takeCounts(dueCells, sentCells) : [];
          await append([...lines, ...counted.map(({ line }) => line)]);
          sentRefusals += lines.length;
          sentCells += counted.length;
          for (const { cell, calls } of counted) noteSent(cell, calls);
        }
      } finally {
        refusals = [...dueRefusals.slice(sentRefusals), ...refusals].slice(0, MOST_REFUSALS);
        cells = [...dueCells.slice(sentCells), ...cells];
      }
    },
  };

  function noteSent(cell: Cell, calls: number): void {
    cell.sent = calls;
    // What was counted meanwhile is sent the next time.
    cell.waits = cell.calls > calls;
    if (cell.waits) cells.push(cell);
  }

  async function append(lines: string[]): Promise<void> {
    shard = (shard + 1) % SHARDS;
    const pipeline = redis.node(shard).client.pipeline();
    pipeline.xadd(keyspace.outbox(shard), '*', EVENT_FIELD, lines.join('\n'));
    // The count only steers a limit: should the process end in between, no harm is done.
    if (lines.length > 1) pipeline.incrby(keyspace.more(shard), lines.length - 1);
    await runPipeline(redis.clock, pipeline, SENT_WITHIN_MS);
  }
}

const noAddress: OfAddress = () => '';

function takeLines(refusals: Refusal[], from: number, seal: OfAddress): string[] {
  let bytes = 0;
  return refusals
    .slice(from, from + LINES_PER_ENTRY)
    .map((one) => encodeRefusal({ ...one, address: one.address && seal(one.address, one.id) }))
    .filter((line) => (bytes += line.length) <= BYTES_PER_ENTRY);
}

function takeCounts(cells: Cell[], from: number): { cell: Cell; calls: number; line: string }[] {
  return cells.slice(from, from + LINES_PER_ENTRY).map((cell) => {
    const { start, calls } = cell;
    return { cell, calls, line: `${start}${calls}}` };
  });
}
