import { encodeEvent } from '../../shared/event.ts';
import type { Kafka } from '../../shared/kafka.ts';
import type { Logger } from '../../shared/log.ts';
import type { Metrics } from '../../shared/metrics.ts';
import type { Batch, Source } from '../../shared/outbox-source.ts';
import { retry } from '../../shared/retry.ts';
import type { Running } from '../../shared/run.ts';

type Parts = { source: Source; kafka: Kafka; metrics: Metrics; log: Logger };

/**
 * Carries usage events from the outbox to Kafka. One batch is read while the one before it is published, never more: when
 * Kafka is away the events wait in Redis. A step that fails is repeated for as long as it takes.
 */
export function startRelay({ source, kafka, metrics, log }: Parts): Running {
  const stopping = new AbortController();
  const { signal } = stopping;
  let topicsAreThere = false;
  const done = relay();
  return {
    async stop() {
      stopping.abort();
      await done;
    },
  };

  async function relay(): Promise<void> {
    let published = Promise.resolve();
    while (!signal.aborted) {
      const batch = await retry(signal, log, 'reading the outbox', () => source.read(signal)).catch(() => undefined);
      await published;
      if (batch) published = publish(batch);
    }
    await published;
  }

  /**
   * 1. Produce, until every replica that keeps up has it. Dying here: the events come again, and Kafka has them twice;
   *    they become the same rows.
   * 2. Acknowledge. Only now may the outbox forget them.
   */
  async function publish({ events, acknowledge }: Batch): Promise<void> {
    try {
      const records = events.map((event) => ({ key: event.billingId || event.keyId, value: encodeEvent(event) }));
      await retry(signal, log, 'producing usage events', async () => {
        if (!topicsAreThere) await kafka.ensureTopics();
        topicsAreThere = false;
        await kafka.produce(kafka.topics.usage, records);
        topicsAreThere = true;
      });
      await retry(signal, log, 'acknowledging usage events', acknowledge);
      metrics.relayedEvents.inc(events.length);
    } catch (error) {
      log.warn({ error, events: events.length }, 'stopped before a batch was done; its events will come again');
    }
  }
}
