import { eventColumns, eventRow, type UsageEvent } from '../../shared/events/event.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';

// ClickHouse refuses a block of rows from more than 100 partitions (max_partitions_per_insert_block). The table has a
// partition for each month, and every adjustment of a batch may be booked on a month of its own.
const MONTHS_PER_INSERT = 50;

/** Inserts events into the books. Inserted again, they are the same rows. */
export async function insertEvents(books: Books, events: UsageEvent[]): Promise<void> {
  for (const block of insertBlocks(events)) {
    await books.client.insert({
      table: 'usage_events',
      columns: eventColumns,
      values: block.map(eventRow),
      format: 'JSONCompactEachRow',
      clickhouse_settings: { async_insert: 0 },
    });
  }
}

/** Splits events into blocks that ClickHouse takes. Nearly always they are one block, of one or two months. */
export function insertBlocks(events: UsageEvent[]): UsageEvent[][] {
  const months = [...new Set(events.map(monthOf))].toSorted();
  if (months.length <= MONTHS_PER_INSERT) return [events];
  const blocks = Map.groupBy(events, (event) => Math.floor(months.indexOf(monthOf(event)) / MONTHS_PER_INSERT));
  return [...blocks.values()];
}

function monthOf({ day }: UsageEvent): string {
  return day.slice(0, 7);
}
