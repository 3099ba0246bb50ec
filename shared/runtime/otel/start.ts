import { randomUUID } from 'node:crypto';
import { diag, DiagLogLevel, type DiagLogger } from '@opentelemetry/api';
import { parseKeyPairsIntoRecord, setGlobalErrorHandler } from '@opentelemetry/core';
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, resourceFromAttributes, type Resource } from '@opentelemetry/resources';
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { ATTR_SERVICE_INSTANCE_ID, ATTR_SERVICE_NAME } from '@opentelemetry/semantic-conventions';
import type { Registry } from '@prometheus-io/client';
import { systemClock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { TelemetryConfig } from '../variables.ts';
import { noTelemetry, type Telemetry } from '../telemetry.ts';
import { throttle } from '../throttle.ts';
import { withTimeout } from '../timeout.ts';
import { metricsOf } from './metrics-of.ts';
import { makeSampling } from './sampling.ts';
import { makeSpans } from './spans.ts';

// A collector that is away costs these spans, about 2 KB each, and a stop at most so long.
const MOST_SPANS_WAITING = 2_048;
const STOP_WITHIN_MS = 2_000;
const SENT_WITHIN_MS = 10_000;
const LOG_EVERY_MS = 10_000;

type Parts = { config: TelemetryConfig; registry: Registry; log: Logger };

/** Sends traces and metrics to a collector, by OTLP/HTTP in JSON. */
export function startOpenTelemetry(program: string, endpoint: string, { config, registry, log }: Parts): Telemetry {
  logFailures(log);
  const resource = resourceOf(program, config);
  const headers = parseKeyPairsIntoRecord(config.OTEL_EXPORTER_OTLP_HEADERS);
  const options = (path: string) => ({ url: `${endpoint}/v1/${path}`, headers, timeoutMillis: SENT_WITHIN_MS });
  const makesTraces = config.OTEL_TRACES_EXPORTER === 'otlp' && config.OTEL_TRACES_SAMPLER !== 'always_off';
  const sampling = makeSampling(config.OTEL_TRACES_SAMPLER, config.OTEL_TRACES_SAMPLER_ARG);
  const traces =
    makesTraces &&
    new TracerProvider({
      resource,
      spanProcessors: [
        new BatchSpanProcessor({
          exporter: new OTLPTraceExporter(options('traces')),
          maxQueueSize: MOST_SPANS_WAITING,
        }),
      ],
    });
  const metrics =
    config.OTEL_METRICS_EXPORTER === 'otlp' &&
    new MeterProvider({
      resource,
      readers: [
        new PeriodicExportingMetricReader({
          exporter: new OTLPMetricExporter(options('metrics')),
          exportIntervalMillis: config.OTEL_METRIC_EXPORT_INTERVAL,
          metricProducers: [metricsOf(registry, resource)],
        }),
      ],
    });

  return {
    ...(traces ? makeSpans(traces.getTracer('keytally'), sampling) : noTelemetry),
    // What can't be sent by then is lost: no program waits for a collector.
    async stop() {
      const sent = Promise.all([traces && traces.shutdown(), metrics && metrics.shutdown()]);
      await withTimeout(systemClock, STOP_WITHIN_MS, sent).catch((error: unknown) =>
        log.warn({ error }, 'the last telemetry was not sent'),
      );
    },
  };
}

function resourceOf(program: string, { OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES }: TelemetryConfig): Resource {
  return defaultResource().merge(
    resourceFromAttributes({
      [ATTR_SERVICE_NAME]: `keytally-${program}`,
      [ATTR_SERVICE_INSTANCE_ID]: randomUUID(),
      ...parseKeyPairsIntoRecord(OTEL_RESOURCE_ATTRIBUTES),
      ...(OTEL_SERVICE_NAME !== '' && { [ATTR_SERVICE_NAME]: OTEL_SERVICE_NAME }),
    }),
  );
}

// The packages tell failures to handlers of the whole process, again with each sending that fails.
function logFailures(log: Logger): void {
  const mayLog = throttle(systemClock, LOG_EVERY_MS);
  const tell = (what: object, message: string) => {
    const notLogged = mayLog();
    if (notLogged !== undefined) log.warn({ ...what, notLogged }, message);
  };
  const warn = (message: string) => tell({ cause: message.slice(0, 500) }, 'telemetry could not be sent');
  const silent = () => {};
  const logger: DiagLogger = { error: warn, warn, info: silent, debug: silent, verbose: silent };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  setGlobalErrorHandler((error) => tell({ error }, 'telemetry could not be sent'));
}
