import { retry } from '../runtime/retry.ts';
import type { Running, Runtime } from '../runtime/run.ts';
import type { CarriedEvent } from './carried-event.ts';
import type { CarriedOutcome } from './outcome.ts';

/** What was read together. Until it is acknowledged it may come again, here or in another process. */
export type Batch = { events: CarriedEvent[]; outcomes: CarriedOutcome[]; acknowledge(): Promise<void> };

// An insert costs ClickHouse about 16 ms, whatever its rows. Three batches may be in memory: one is delivered, one waits for
// it, and one is held back. The second limit is for events with long texts.
export const EVENTS_PER_BATCH = 20_000;
export const BYTES_PER_BATCH = 12_000_000;

/** Where usage events come from: the outbox or Kafka. */
export type Source = {
  /** Gives the next batch, full or about a second old; undefined when nothing came. The signal cuts it short. */
  read(signal: AbortSignal): Promise<Batch | undefined>;
  /** Gives what it has read and holds back, once nothing more is to be read. */
  rest?(): Promise<Batch | undefined>;
};

export type PumpOptions = Runtime & {
  source: Source;
  /** Delivers a batch's events. It repeats a step that fails, until the signal says to stop. */
  deliver(events: Batch['events'], signal: AbortSignal): Promise<void>;
  /** Delivers a batch's outcomes, likewise, once its events are delivered. */
  deliverOutcomes(outcomes: Batch['outcomes'], signal: AbortSignal): Promise<void>;
  /** Called when the source gave no batch. */
  idle?(): void;
};

/**
 * Delivers usage events from a source until stopped. It reads one batch while it delivers the one before, never more:
 * events that can't be delivered wait in the source.
 * 1. Deliver. After a crash here the source gives the events again, and they count once.
 * 2. Acknowledge. Only now may the source forget the events.
 */
export function startPump({ source, deliver, deliverOutcomes, idle, metrics, log, clock }: PumpOptions): Running {
  const stopping = new AbortController();
  const { signal } = stopping;
  const done = pumpAll();
  return {
    async stop() {
      stopping.abort();
      await done;
    },
  };

  async function pumpAll(): Promise<void> {
    let pumped = Promise.resolve();
    while (!signal.aborted) {
      const batch = await retry(clock, signal, log, 'reading usage events', () => source.read(signal)).catch(
        () => undefined,
      );
      metrics.eventsInHand.inc(batch?.events.length ?? 0);
      await pumped;
      if (batch) pumped = pumpOne(batch);
      else idle?.();
    }
    await pumped;
    const rest = await retry(clock, signal, log, 'reading the last usage events', async () => source.rest?.()).catch(
      () => undefined,
    );
    if (!rest) return;
    metrics.eventsInHand.inc(rest.events.length);
    await pumpOne(rest);
  }

  async function pumpOne({ events, outcomes, acknowledge }: Batch): Promise<void> {
    try {
      if (events.length > 0) await deliver(events, signal);
      if (outcomes.length > 0) await deliverOutcomes(outcomes, signal);
      await retry(clock, signal, log, 'acknowledging usage events', acknowledge);
    } catch (error) {
      log.warn({ error, events: events.length }, 'stopped before a batch was acknowledged; its events will come again');
    } finally {
      metrics.eventsInHand.dec(events.length);
    }
  }
}
