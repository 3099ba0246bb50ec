import { Histogram, type HistogramConfiguration, type LabelValues } from '@prometheus-io/client';

/** A histogram of durations. */
export type Timings<L extends string> = { observe(labels: LabelValues<L>, seconds: number): void };

const MAX_WAITING = 256;

/**
 * A histogram that counts its observations together, when it is scraped or when many wait. Counted one by one, at the
 * end of each request, its code is out of the processor's caches and costs many times as much.
 */
export function makeTimings<L extends string>(config: HistogramConfiguration<L>): Timings<L> {
  const waiting: Parameters<Timings<L>['observe']>[] = [];
  const histogram = new Histogram<L>({ ...config, collect: countWaiting });

  function countWaiting(): void {
    for (const [labels, seconds] of waiting) histogram.observe(labels, seconds);
    waiting.length = 0;
  }

  return {
    observe(labels, seconds) {
      if (waiting.push([labels, seconds]) === MAX_WAITING) countWaiting();
    },
  };
}
