import { startPump, type PumpOptions, type Source } from '../../shared/events/pump.ts';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import { raiseBookedTo } from '../../shared/events/log-place.ts';
import type { CarriedOutcome } from '../../shared/events/outcome.ts';
import { noTelemetry, spans, type Telemetry } from '../../shared/runtime/telemetry.ts';
import { retry } from '../../shared/runtime/retry.ts';
import type { Running, Runtime } from '../../shared/runtime/run.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../shared/stores/redis.ts';
import { makeFillCustomers } from './fill-customers.ts';
import { insertEvents } from './insert-events.ts';
import { makeInsertOutcomes } from './insert-outcomes.ts';
import { makeMarkChangedDays } from './changed-days.ts';
import { makeNoteLateEvents } from './note-late-events.ts';
import { notifyAlerts } from './notify-alerts.ts';
import { notifyCredits } from './notify-credits.ts';
import { notifyHolds } from './notify-holds.ts';
import { makeNotifyLimits } from './notify-limits.ts';

export type DeliverOptions = Runtime & {
  sql: Sql;
  redis: ShardedRedis;
  books: Books;
  telemetry?: Telemetry;
  /** Redis's clock, in ms. */
  now(): Promise<number>;
  rebuildSoon?(): void;
  lookSoon?(): void;
};

/** What is done with a batch: one step after the other, and each again until it succeeds. */
export type Steps = { events: Step<CarriedEvent>[]; outcomes: Step<CarriedOutcome>[] };
type Step<Read> = { what: string; work(batch: Read[]): Promise<void> };

/** Carries events from a source to the books. After a crash at any step the source gives the events again. */
export function startConsuming({ source, ...options }: DeliverOptions & { source: Source }): Running {
  const { metrics, log, clock } = options;
  const idle = () => metrics.consumerLagSeconds.set(0);
  return startPump({ source, metrics, log, clock, idle, ...makeDelivery(options) });
}

/** What is done with each batch of events, and of outcomes. */
export function makeDelivery(
  options: DeliverOptions,
  { events, outcomes }: Steps = stepsOf(options),
): Pick<PumpOptions, 'deliver' | 'deliverOutcomes'> {
  const { metrics, log, telemetry = noTelemetry, clock } = options;
  return {
    deliver: telemetry.batch(spans.consume, async (batch: CarriedEvent[], signal: AbortSignal) => {
      const oldestMs = batch.reduce((min, event) => Math.min(min, event.timeMs), Infinity);
      for (const { what, work } of events)
        await retry(clock, signal, log, what, () => {
          // Also while a step fails: the books grow old meanwhile.
          metrics.consumerLagSeconds.set(Math.max(0, clock.now() - oldestMs) / 1000);
          return work(batch);
        });
      metrics.consumedEvents.inc(batch.length);
    }),
    async deliverOutcomes(batch, signal) {
      for (const { what, work } of outcomes) await retry(clock, signal, log, what, () => work(batch));
    },
  };
}

/** All steps in their order; after each stands what a crash there, or a repetition, means. */
export function stepsOf(options: DeliverOptions): Steps {
  const { sql, redis, books, clock, telemetry = noTelemetry, now, rebuildSoon, lookSoon } = options;
  const markChangedDays = makeMarkChangedDays(sql, clock);
  const insert = telemetry.batch(spans.insert, (events: CarriedEvent[]) => insertEvents(books, events, clock));
  return {
    events: [
      // They don't change, so a repetition reads the same.
      { what: 'reading the customers of events', work: makeFillCustomers(sql, clock) },
      // What is in the books without a mark, nobody would read.
      { what: 'marking days', work: (events) => markChangedDays(events) },
      // A Redis that comes back with a shorter log has lost what is booked.
      { what: 'noting what the books get', work: (events) => raiseBookedTo(sql, events) },
      // Inserted again, they are the same rows.
      { what: 'inserting usage events', work: insert },
      // Without the note their records would stay too low: who dies here, with a Redis that has lost these events, leaves them so until
      // the next reconciling. Where Redis is away, it notes all.
      { what: 'noting late events', work: makeNoteLateEvents(sql, redis, rebuildSoon) },
      // One that is stored already stays as it is.
      { what: 'notifying of alerts', work: (events) => notifyAlerts(sql, clock, events) },
      // Of holds that ended by themselves, of each once.
      { what: 'notifying webhooks of holds', work: (events) => notifyHolds(sql, clock, events) },
      // Somebody looks at their records, and notifies webhooks.
      { what: 'noting credits to look at', work: (events) => notifyCredits(sql, clock, lookSoon, events) },
      // Without the mark, a day that was summed up meanwhile would not be summed up again.
      // The clock is read after the insert. A day that is open now can't have been summed up without these rows.
      { what: 'marking changed days', work: async (events) => markChangedDays(events, await now()) },
    ],
    outcomes: [
      // Of a count that is inserted again the largest stays.
      { what: 'inserting outcomes', work: makeInsertOutcomes(options) },
      // Of each limit once for each window.
      { what: 'notifying webhooks of limits', work: makeNotifyLimits(sql, clock) },
    ],
  };
}
