import type { Books } from '../../shared/clickhouse.ts';
import { eventColumns, eventRow, type UsageEvent } from '../../shared/event.ts';
import type { Logger } from '../../shared/log.ts';
import type { Metrics } from '../../shared/metrics.ts';
import type { Batch, Source } from '../../shared/outbox-source.ts';
import { retry } from '../../shared/retry.ts';
import type { Running } from '../../shared/run.ts';
import type { MarkDays } from './marks.ts';

export type Parts = {
  source: Source;
  books: Books;
  markDays: MarkDays;
  /** Redis's clock, in ms. */
  now(): Promise<number>;
  metrics: Metrics;
  log: Logger;
};

/**
 * Carries events from a source to the books. One batch is read while the one before it is written, never more: a store
 * that is away makes the events wait where they are. A step that fails is repeated for as long as it takes.
 */
export function startConsuming({ source, books, markDays, now, metrics, log }: Parts): Running {
  const stopping = new AbortController();
  const { signal } = stopping;
  const done = consume();
  return {
    async stop() {
      stopping.abort();
      await done;
    },
  };

  async function consume(): Promise<void> {
    let written = Promise.resolve();
    while (!signal.aborted) {
      const batch = await retry(signal, log, 'reading usage events', () => source.read(signal)).catch(() => undefined);
      await written;
      if (batch) written = write(batch);
      else metrics.consumerLagSeconds.set(0);
    }
    await written;
  }

  /**
   * 1. Insert. Dying here: the events come again, and are the same rows.
   * 2. Mark the days they belong to. Dying here: as above; a day that is over would not be summed up without its mark.
   * 3. Acknowledge. Only now may the source forget them.
   */
  async function write({ events, acknowledge }: Batch): Promise<void> {
    try {
      if (events.length > 0) {
        await retry(signal, log, 'inserting usage events', () => insertEvents(books, events));
        await retry(signal, log, 'marking days', async () => {
          // The clock is read after the insert: a day that is open now can not have been summed up without these rows.
          const nowMs = await now();
          await markDays(events, nowMs);
          metrics.consumerLagSeconds.set(Math.max(0, nowMs - oldest(events)) / 1000);
        });
        metrics.consumedEvents.inc(events.length);
      }
      await retry(signal, log, 'acknowledging usage events', acknowledge);
    } catch (error) {
      log.warn({ error, events: events.length }, 'stopped before a batch was done; its events will come again');
    }
  }
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
