import { ROOT_CONTEXT, TraceFlags, type SpanContext } from '@opentelemetry/api';
import { SamplingDecision, TraceIdRatioBasedSampler } from '@opentelemetry/sdk-trace';
import { systemClock, type Clock } from '../clock.ts';
import { makeRate } from '../rate.ts';
import type { Config } from '../variables.ts';

/**
 * How many requests a process traces each second at most. Callers choose by their `traceparent`, and gateways hand on that of any
 * client: whoever asks for all of them must not slow down the others.
 */
export const MOST_TRACED_PER_SECOND = 500;

/** Whether a request is traced, by what its caller sent. */
export type Sampling = (parent: SpanContext | null) => boolean;

/**
 * Decides as OpenTelemetry's samplers of these names do, before anything is made for the request. The samplers themselves are asked
 * with a new trace id for each request: that alone would cost a verification 3 % of its time.
 */
export function makeSampling(
  name: Config['OTEL_TRACES_SAMPLER'],
  ratio: number,
  clock: Pick<Clock, 'monotonic'> = systemClock,
): Sampling {
  const [, followsParent, root] = /^(parentbased_)?(.+)$/.exec(name)!;
  const byTraceId = new TraceIdRatioBasedSampler(ratio);
  const rate = makeRate(MOST_TRACED_PER_SECOND);

  return (parent) => isSampled(parent) && rate('', clock.monotonic()) === 0;

  function isSampled(parent: SpanContext | null): boolean {
    if (parent && followsParent) return (parent.traceFlags & TraceFlags.SAMPLED) !== 0;
    if (root !== 'traceidratio') return root === 'always_on';
    if (!parent) return Math.random() < ratio;
    return byTraceId.shouldSample(ROOT_CONTEXT, parent.traceId).decision !== SamplingDecision.NOT_RECORD;
  }
}
