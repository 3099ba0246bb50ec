import { eventColumns, eventRow, type UsageEvent } from '../../shared/events/event.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';

/** Inserts events into the books. Inserted again, they are the same rows. */
export async function insertEvents(books: Books, events: UsageEvent[]): Promise<void> {
  await books.client.insert({
    table: 'usage_events',
    columns: eventColumns,
    values: events.map(eventRow),
    format: 'JSONCompactEachRow',
    clickhouse_settings: { async_insert: 0 },
  });
}
