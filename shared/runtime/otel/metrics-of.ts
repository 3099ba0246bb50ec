import { ValueType, type Attributes, type HrTime } from '@opentelemetry/api';
import { hrTime, millisToHrTime } from '@opentelemetry/core';
import type { Resource } from '@opentelemetry/resources';
import {
  AggregationTemporality,
  DataPointType,
  type MetricData,
  type MetricProducer,
} from '@opentelemetry/sdk-metrics';
import type { MetricObjectWithValues, MetricValueWithName, Registry } from '@prometheus-io/client';

type Value = MetricValueWithName<string>;
type Metric = MetricObjectWithValues<Value>;
type Times = { startTime: HrTime; endTime: HrTime };

/** The metrics of a registry, for OpenTelemetry: the figures that Prometheus reads, under the same names and labels. */
export function metricsOf(registry: Registry, resource: Resource): MetricProducer {
  const startTime = millisToHrTime(performance.timeOrigin);
  return {
    async collect() {
      const times = { startTime, endTime: hrTime() };
      const metrics = (await registry.getMetricsAsJSON()) as unknown as Metric[];
      const scopeMetrics = [
        { scope: { name: 'keytally' }, metrics: metrics.flatMap((metric) => dataOf(metric, times)) },
      ];
      return { resourceMetrics: { resource, scopeMetrics }, errors: [] };
    },
  };
}

function dataOf(metric: Metric, times: Times): MetricData[] {
  const { name, help, type, values } = metric;
  const pointsOf = (some: Value[]) =>
    some.map(({ labels, value }) => ({ ...times, attributes: labels as Attributes, value }));
  const common = (called: string) => ({
    descriptor: { name: called, description: help, unit: unitOf(name), valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  });
  const sumOf = (called: string, some: Value[]): MetricData => ({
    ...common(called),
    dataPointType: DataPointType.SUM,
    isMonotonic: true,
    dataPoints: pointsOf(some),
  });
  const gaugeOf = (some: Value[]): MetricData => ({
    ...common(name),
    dataPointType: DataPointType.GAUGE,
    dataPoints: pointsOf(some),
  });
  switch (type) {
    case 'histogram': {
      const dataPoints = histogramsOf(values).map(({ labels, ...value }) => ({ ...times, attributes: labels, value }));
      return [{ ...common(name), dataPointType: DataPointType.HISTOGRAM, dataPoints }];
    }
    // OpenTelemetry's packages have no summaries: the quantiles are a gauge.
    case 'summary': {
      const of = (called: string) => values.filter(({ metricName = name }) => metricName === called);
      const sums = [`${name}_sum`, `${name}_count`].map((called) => sumOf(called, of(called)));
      return [gaugeOf(of(name)), ...sums];
    }
    case 'counter':
      return [sumOf(name, values)];
    default:
      return [gaugeOf(values)];
  }
}

/** Of the lines of a histogram: those of one series come one after the other, its buckets by their bound, then sum and count. */
function histogramsOf(values: Value[]) {
  const series: { labels: Attributes; boundaries: number[]; upTo: number[]; sum: number; count: number }[] = [];
  let last: (typeof series)[number] | undefined;
  for (const { metricName = '', labels, value } of values) {
    const { le, ...own } = labels as Record<string, string | number>;
    if (le !== undefined) {
      last ??= { labels: own, boundaries: [], upTo: [], sum: 0, count: 0 };
      last.upTo.push(value);
      if (le !== '+Inf') last.boundaries.push(Number(le));
    } else if (metricName.endsWith('_sum')) last!.sum = value;
    else {
      series.push({ ...last!, count: value });
      last = undefined;
    }
  }
  return series.map(({ labels, boundaries, upTo, sum, count }) => {
    // Prometheus counts what is below a bound, OpenTelemetry what is between two.
    const counts = upTo.map((upToThis, i) => upToThis - (upTo[i - 1] ?? 0));
    return { labels, buckets: { boundaries, counts }, sum, count };
  });
}

function unitOf(name: string): string {
  if (/_seconds(_total)?$/.test(name)) return 's';
  return /_bytes(_total)?$/.test(name) ? 'By' : '';
}
