import type { Logger } from '../runtime/log.ts';
import type { Batch, Source } from './outbox-reader.ts';
import { retry } from '../runtime/retry.ts';
import type { Running } from '../runtime/run.ts';

type PumpOptions = {
  source: Source;
  /** Puts a batch where it belongs, before it is acknowledged; a step that fails is to be repeated while the signal lets. */
  deliver(events: Batch['events'], signal: AbortSignal): Promise<void>;
  /** Called when the source had nothing. */
  idle?(): void;
  log: Logger;
};

/**
 * Carries usage events from a source to where they belong, until stopped. One batch is read while the one before it is
 * delivered, never more: what can't be delivered makes the events wait where they are.
 * 1. Deliver. Dying here: the events come again, and count once whatever was done with them before.
 * 2. Acknowledge. Only now may the source forget them.
 */
export function startPump({ source, deliver, idle, log }: PumpOptions): Running {
  const stopping = new AbortController();
  const { signal } = stopping;
  const done = carryAll();
  return {
    async stop() {
      stopping.abort();
      await done;
    },
  };

  async function carryAll(): Promise<void> {
    let carried = Promise.resolve();
    while (!signal.aborted) {
      const batch = await retry(signal, log, 'reading usage events', () => source.read(signal)).catch(() => undefined);
      await carried;
      if (batch) carried = carry(batch);
      else idle?.();
    }
    await carried;
  }

  async function carry({ events, acknowledge }: Batch): Promise<void> {
    try {
      if (events.length > 0) await deliver(events, signal);
      await retry(signal, log, 'acknowledging usage events', acknowledge);
    } catch (error) {
      log.warn({ error, events: events.length }, 'stopped before a batch was done; its events will come again');
    }
  }
}
