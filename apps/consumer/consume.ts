import { startPump } from '../../shared/events/pump.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import { eventColumns, eventRow, type UsageEvent } from '../../shared/events/event.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Source } from '../../shared/events/outbox-reader.ts';
import { retry } from '../../shared/runtime/retry.ts';
import type { Running } from '../../shared/runtime/run.ts';
import type { SettleLateEvents } from './settle-late-events.ts';
import type { MarkChangedDays } from './changed-days.ts';

export type ConsumeOptions = {
  source: Source;
  books: Books;
  markChangedDays: MarkChangedDays;
  settleLateEvents: SettleLateEvents;
  /** Redis's clock, in ms. */
  now(): Promise<number>;
  metrics: Metrics;
  log: Logger;
};

/**
 * Carries events from a source to the books.
 * 1. Insert. Dying here: the events come again, and are the same rows.
 * 2. Mark the days they belong to. Dying here: as above; a day that is over would not be summed up without its mark.
 * 3. Set the balances that had lost some of them. Dying here: as above; those balances would stay too low.
 */
export function startConsuming({
  source,
  books,
  markChangedDays,
  settleLateEvents,
  now,
  metrics,
  log,
}: ConsumeOptions): Running {
  return startPump({
    source,
    log,
    idle: () => metrics.consumerLagSeconds.set(0),
    async deliver(events, signal) {
      await retry(signal, log, 'inserting usage events', () => insertEvents(books, events));
      await retry(signal, log, 'marking days', async () => {
        // The clock is read after the insert: a day that is open now can not have been summed up without these rows.
        const nowMs = await now();
        await markChangedDays(events, nowMs);
        metrics.consumerLagSeconds.set(Math.max(0, nowMs - oldest(events)) / 1000);
      });
      await retry(signal, log, 'settling what came late', () => settleLateEvents(events));
      metrics.consumedEvents.inc(events.length);
    },
  });
}

async function insertEvents(books: Books, events: UsageEvent[]): Promise<void> {
  await books.client.insert({
    table: 'usage_events',
    columns: eventColumns,
    values: events.map(eventRow),
    format: 'JSONCompactEachRow',
    clickhouse_settings: { async_insert: 0 },
  });
}

function oldest(events: UsageEvent[]): number {
  return events.reduce((min, event) => Math.min(min, event.timeMs), Infinity);
}
