import { startPump, type Source } from '../../shared/events/pump.ts';
import type { Kafka, Outgoing } from '../../shared/events/kafka.ts';
import { headersOf, type CarriedEvent } from '../../shared/events/carried-event.ts';
import { noTelemetry, spans, type Telemetry } from '../../shared/runtime/telemetry.ts';
import { retry } from '../../shared/runtime/retry.ts';
import type { Running, Runtime } from '../../shared/runtime/run.ts';

type RelayOptions = Runtime & { source: Source; kafka: Kafka; telemetry?: Telemetry };

/**
 * Carries usage events from the outbox to Kafka, and acknowledges them once every in-sync replica has them. After a crash
 * in between, Kafka gets the events twice; they become the same rows.
 */
export function startRelay({ source, kafka, metrics, log, telemetry = noTelemetry, clock }: RelayOptions): Running {
  let topicsExist = false;
  return startPump({
    source,
    metrics,
    log,
    clock,
    deliver: telemetry.batch(spans.relay, async (events: CarriedEvent[], signal: AbortSignal) => {
      await produce(events.map(recordOf), signal);
      metrics.relayedEvents.inc(events.length);
    }),
    async deliverOutcomes(outcomes, signal) {
      const records = outcomes.map(({ json }) => ({ key: null, value: json }));
      await produce(records, signal);
    },
  });

  async function produce(records: Outgoing[], signal: AbortSignal): Promise<void> {
    await retry(clock, signal, log, 'producing usage events', async () => {
      if (!topicsExist) await kafka.ensureTopics();
      topicsExist = false;
      await kafka.produce(kafka.topics.usage, records);
      topicsExist = true;
    });
  }
}

function recordOf(event: CarriedEvent): Outgoing {
  return { key: event.billingId || event.keyId, value: event.json, headers: headersOf(event) };
}
