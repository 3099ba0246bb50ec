import { startPump } from '../../shared/events/pump.ts';
import { encodeEvent } from '../../shared/events/event.ts';
import type { Kafka } from '../../shared/events/kafka.ts';
import type { Logger } from '../../shared/runtime/log.ts';
import type { Metrics } from '../../shared/runtime/metrics.ts';
import type { Source } from '../../shared/events/outbox-reader.ts';
import { retry } from '../../shared/runtime/retry.ts';
import type { Running } from '../../shared/runtime/run.ts';

type RelayOptions = { source: Source; kafka: Kafka; metrics: Metrics; log: Logger };

/**
 * Carries usage events from the outbox to Kafka, until every replica that keeps up has them. Dying before they are
 * acknowledged here, they come again, and Kafka has them twice; they become the same rows.
 */
export function startRelay({ source, kafka, metrics, log }: RelayOptions): Running {
  let topicsAreThere = false;
  return startPump({
    source,
    log,
    async deliver(events, signal) {
      const records = events.map((event) => ({ key: event.billingId || event.keyId, value: encodeEvent(event) }));
      await retry(signal, log, 'producing usage events', async () => {
        if (!topicsAreThere) await kafka.ensureTopics();
        topicsAreThere = false;
        await kafka.produce(kafka.topics.usage, records);
        topicsAreThere = true;
      });
      metrics.relayedEvents.inc(events.length);
    },
  });
}
