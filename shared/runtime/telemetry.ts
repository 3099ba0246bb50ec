import type { Logger } from './log.ts';
import type { Metrics } from './metrics.ts';
import type { TelemetryConfig } from './variables.ts';

/** What a span says. Never a secret: no key, no token, no header, and no text that a client chose. */
export type Attributes = Record<string, string | number>;
/** A span: its name, what its work is to other services, and what is known of it before it begins. */
export type SpanKind = { name: string; kind: 'internal' | 'client' | 'producer' | 'consumer'; attributes?: Attributes };
/** The spans of our programs, beside those of requests. */
export const spans = {
  verify: { name: 'verify key', kind: 'internal' },
  script: { name: 'verify.lua', kind: 'client', attributes: { 'db.system.name': 'redis' } },
  settleHold: { name: 'settle hold', kind: 'internal' },
  captureScript: { name: 'capture.lua', kind: 'client', attributes: { 'db.system.name': 'redis' } },
  cancelScript: { name: 'cancel.lua', kind: 'client', attributes: { 'db.system.name': 'redis' } },
  relay: { name: 'relay usage event', kind: 'producer', attributes: { 'messaging.system': 'kafka' } },
  consume: { name: 'consume usage event', kind: 'consumer' },
  insert: { name: 'insert usage event', kind: 'client', attributes: { 'db.system.name': 'clickhouse' } },
} as const satisfies Record<string, SpanKind>;

/** What carries the trace of the call that it comes from, as `traceparent` of W3C; absent where that call is not traced. */
type Traced = { trace?: string };

/**
 * What a program says to OpenTelemetry of its work. Each wraps work that it leaves as it is. Nothing is said of a request that is not
 * traced, but that it is one.
 */
export type Telemetry = {
  /** Does a request's work as a span, in the trace that its caller names. Call it once the caller is known: strangers choose no traces. */
  request<Result>(
    asked: { method: string; route: string; traceparent: string | undefined },
    work: () => Promise<Result>,
  ): Promise<Result>;
  /** Work that is a span in each traced request; `attributesOf` gives what it says once it is done. */
  part<Args extends unknown[], Result>(
    span: SpanKind,
    work: (...args: Args) => Promise<Result>,
    attributesOf?: (result: Result) => Attributes,
  ): (...args: Args) => Promise<Result>;
  /** The trace of the traced request that runs here, for what it leaves behind; '' in all others. */
  trace(): string;
  /**
   * Work on a batch of things, that is a span in the trace of each traced thing, and one of the batch, which link to each other. The
   * work gets the things with the span as their trace.
   */
  batch<Thing extends Traced, Rest extends unknown[], Result>(
    span: SpanKind,
    work: (things: Thing[], ...rest: Rest) => Promise<Result>,
  ): (things: Thing[], ...rest: Rest) => Promise<Result>;
  stop(): Promise<void>;
};

/** Says nothing, and costs nothing. */
export const noTelemetry: Telemetry = {
  request: (_, work) => work(),
  part: (_, work) => work,
  trace: () => '',
  batch: (_, work) => work,
  stop: () => Promise.resolve(),
};

/** Starts to send traces and metrics to the collector that is configured. OpenTelemetry's SDK is loaded only then. */
export async function startTelemetry(
  program: string,
  config: TelemetryConfig,
  metrics: Metrics,
  log: Logger,
): Promise<Telemetry> {
  if (config.OTEL_EXPORTER_OTLP_ENDPOINT === undefined) return noTelemetry;
  const { startOpenTelemetry } = await import('./otel/start.ts');
  return startOpenTelemetry(program, config.OTEL_EXPORTER_OTLP_ENDPOINT, { config, registry: metrics.registry, log });
}
