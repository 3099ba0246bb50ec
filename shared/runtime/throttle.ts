import type { Clock } from './clock.ts';

/**
 * Limits log lines that would otherwise come with every call. The returned function answers `undefined` when the caller
 * must stay silent; once per `everyMs` it answers how many calls stayed silent since the last line.
 */
export function throttle(clock: Clock, everyMs: number): () => number | undefined {
  let lastAt = -Infinity;
  let silent = 0;
  return () => {
    const now = clock.monotonic();
    if (now - lastAt <= everyMs) {
      silent++;
      return undefined;
    }
    const skipped = silent;
    lastAt = now;
    silent = 0;
    return skipped;
  };
}
