import { startPump } from '../../shared/events/pump.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Source } from '../../shared/events/source.ts';
import { retry } from '../../shared/runtime/retry.ts';
import type { Running } from '../../shared/runtime/run.ts';
import { insertEvents } from './insert-events.ts';
import type { NoteLateEvents } from './note-late-events.ts';
import type { MarkChangedDays } from './changed-days.ts';

export type ConsumeOptions = {
  source: Source;
  books: Books;
  markChangedDays: MarkChangedDays;
  noteLateEvents: NoteLateEvents;
  /** Redis's clock, in ms. */
  now(): Promise<number>;
  metrics: Metrics;
  log: Logger;
};

/**
 * Carries events from a source to the books. After a crash at any step the source gives the events again.
 * 1. Insert the events. Inserted again, they are the same rows.
 * 2. Mark their days as changed. Without the mark, a day that is over would not be summed up again.
 * 3. Note the records whose balances lack late events. Without the note they would stay too low.
 */
export function startConsuming({
  source,
  books,
  markChangedDays,
  noteLateEvents,
  now,
  metrics,
  log,
}: ConsumeOptions): Running {
  return startPump({
    source,
    metrics,
    log,
    idle: () => metrics.consumerLagSeconds.set(0),
    async deliver(events, signal) {
      await retry(signal, log, 'inserting usage events', () => insertEvents(books, events));
      await retry(signal, log, 'marking changed days', async () => {
        // The clock is read after the insert. A day that is open now can't have been summed up without these rows.
        const nowMs = await now();
        await markChangedDays(events, nowMs);
        metrics.consumerLagSeconds.set(Math.max(0, nowMs - oldest(events)) / 1000);
      });
      await retry(signal, log, 'noting late events', () => noteLateEvents(events));
      metrics.consumedEvents.inc(events.length);
    },
  });
}

function oldest(events: CarriedEvent[]): number {
  return events.reduce((min, event) => Math.min(min, event.timeMs), Infinity);
}
