import type { Clock } from '../../shared/runtime/clock.ts';
import { startPump, type PumpOptions, type Source } from '../../shared/events/pump.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import { noTelemetry, spans, type Telemetry } from '../../shared/runtime/telemetry.ts';
import { retry } from '../../shared/runtime/retry.ts';
import type { Running } from '../../shared/runtime/run.ts';
import type { FillCustomers } from './fill-customers.ts';
import type { FollowUps } from './follow-ups.ts';
import { insertEvents } from './insert-events.ts';
import { makeInsertOutcomes } from './insert-outcomes.ts';
import type { OpenAddresses } from './client-addresses.ts';
import type { MarkChangedDays } from './changed-days.ts';
import type { NotifyLimits } from './notify-limits.ts';

export type ConsumeOptions = DeliverOptions & { source: Source };

export type DeliverOptions = {
  books: Books;
  fillCustomers: FillCustomers;
  markChangedDays: MarkChangedDays;
  raiseBookedTo(events: CarriedEvent[]): Promise<void>;
  followUps: FollowUps;
  notifyLimits: NotifyLimits;
  openAddresses: OpenAddresses;
  /** Redis's clock, in ms. */
  now(): Promise<number>;
  metrics: Metrics;
  log: Logger;
  telemetry?: Telemetry;
  clock: Clock;
};

/**
 * Carries events from a source to the books. After a crash at any step the source gives the events again.
 * 1. Read the customers that events lack. They don't change, so a repetition reads the same.
 * 2. Mark their days as changed, note up to where the books have the logs, and insert the events. Inserted again, they are the same rows.
 * 3. Do what follows from them (follow-ups.ts). Where Redis is away, that notes their records: it may have lost these events.
 * 4. Mark their days again. Without the mark, a day that was summed up meanwhile would not be summed up again.
 * 5. Insert the outcomes. Of a count that is inserted again the largest stays. Then notify webhooks of limits, once for each window.
 */
export function startConsuming(options: ConsumeOptions): Running {
  const { source, metrics, log, clock } = options;
  const idle = () => metrics.consumerLagSeconds.set(0);
  return startPump({ source, metrics, log, clock, idle, ...makeDelivery(options) });
}

/** What is done with each batch of events, and of outcomes. */
export function makeDelivery({
  books,
  fillCustomers,
  markChangedDays,
  raiseBookedTo,
  followUps,
  notifyLimits,
  openAddresses,
  now,
  metrics,
  log,
  telemetry = noTelemetry,
  clock,
}: DeliverOptions): Pick<PumpOptions, 'deliver' | 'deliverOutcomes'> {
  const insert = telemetry.batch(spans.insert, (events: CarriedEvent[]) => insertEvents(books, events, clock));
  return {
    deliver: telemetry.batch(spans.consume, async (events: CarriedEvent[], signal: AbortSignal) => {
      await retry(clock, signal, log, 'reading the customers of events', () => fillCustomers(events));
      await retry(clock, signal, log, 'marking days', () => markChangedDays(events));
      await retry(clock, signal, log, 'noting what the books get', () => raiseBookedTo(events));
      await retry(clock, signal, log, 'inserting usage events', () => insert(events));
      for (const { what, work } of followUps) await retry(clock, signal, log, what, () => work(events));
      await retry(clock, signal, log, 'marking changed days', async () => {
        // The clock is read after the insert. A day that is open now can't have been summed up without these rows.
        const nowMs = await now();
        await markChangedDays(events, nowMs);
        metrics.consumerLagSeconds.set(Math.max(0, nowMs - oldest(events)) / 1000);
      });
      metrics.consumedEvents.inc(events.length);
    }),
    deliverOutcomes: makeInsertOutcomes({ books, notifyLimits, openAddresses, metrics, log, clock }),
  };
}

function oldest(events: CarriedEvent[]): number {
  return events.reduce((min, event) => Math.min(min, event.timeMs), Infinity);
}
