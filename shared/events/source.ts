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
