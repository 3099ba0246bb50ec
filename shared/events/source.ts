import type { UsageEvent } from './event.ts';

/** Events that were read together. Until they are acknowledged they may come again, here or in another process. */
export type Batch = { events: UsageEvent[]; acknowledge(): Promise<void> };

/** Where usage events come from: the outbox or Kafka. */
export type Source = {
  /** Gives the next batch, full or about a second old; undefined when nothing came. The signal cuts it short. */
  read(signal: AbortSignal): Promise<Batch | undefined>;
  /** Gives what it has read and holds back, once nothing more is to be read. */
  rest?(): Promise<Batch | undefined>;
};
