import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { Clock } from '../../shared/runtime/clock.ts';
import { eventColumns, eventRow, type UsageEvent } from '../../shared/events/event.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';

// A batch at once would keep the processor from verifications on a shared machine: both sides work in pieces of some ms.
const ROWS_PER_PIECE = 500;
const BETWEEN_PIECES_MS = 3;

// The table has a partition for each month, and every adjustment of a batch may be booked on a month of its own.
const clickhouse_settings = { async_insert: 0, max_partitions_per_insert_block: '0' } as const;
// JSONCompactEachRow: with names in each row both sides would work twice as much.
const INSERT = `insert into usage_events (${eventColumns.join(', ')}) format JSONCompactEachRow`;

/** Inserts events into the books. Inserted again, they are the same rows. */
export async function insertEvents(
  { client }: Pick<Books, 'client'>,
  events: UsageEvent[],
  clock: Clock,
): Promise<void> {
  const values = Readable.from(pieces(events, clock), { objectMode: false });
  const { stream } = await client.exec({ query: INSERT, values, clickhouse_settings });
  await finished(stream.resume());
}

async function* pieces(events: UsageEvent[], clock: Clock): AsyncGenerator<Buffer> {
  for (let i = 0; i < events.length; i += ROWS_PER_PIECE) {
    if (i > 0) await clock.sleep(BETWEEN_PIECES_MS);
    let rows = '';
    for (const event of events.slice(i, i + ROWS_PER_PIECE)) rows += `${JSON.stringify(eventRow(event))}\n`;
    yield Buffer.from(rows);
  }
}
