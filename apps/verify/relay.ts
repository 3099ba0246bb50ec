import { startCarrying } from '../../shared/carry.ts';
import { encodeEvent } from '../../shared/event.ts';
import type { Kafka } from '../../shared/kafka.ts';
import type { Logger } from '../../shared/log.ts';
import type { Metrics } from '../../shared/metrics.ts';
import type { Source } from '../../shared/outbox-source.ts';
import { retry } from '../../shared/retry.ts';
import type { Running } from '../../shared/run.ts';

type Parts = { source: Source; kafka: Kafka; metrics: Metrics; log: Logger };

/**
 * Carries usage events from the outbox to Kafka, until every replica that keeps up has them. Dying before they are
 * acknowledged here, they come again, and Kafka has them twice; they become the same rows.
 */
export function startRelay({ source, kafka, metrics, log }: Parts): Running {
  let topicsAreThere = false;
  return startCarrying({
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
