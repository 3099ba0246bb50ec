// More names than this in one second are remembered no longer: each costs about 150 bytes.
const MOST_NAMES = 10_000;

/** Counts a call under a name. Gives 0 if it may pass, else after how many seconds the next one may. */
export type Rate = (name: string, nowMs: number, perSecond?: number) => number;

/**
 * Limits calls under each name to `perSecond`, after a burst of at most one second's worth, in this process (GCRA: one number
 * for each name, the theoretical arrival time of its next call). A name whose arrival time has passed is as if unknown, so
 * forgetting it grants nothing.
 */
export function makeRate(perSecond: number): Rate {
  const arrivals = new Map<string, { ms: number }>();

  return function count(name, nowMs, ownPerSecond = perSecond) {
    const intervalMs = 1_000 / ownPerSecond;
    const known = arrivals.get(name);
    if (known === undefined) {
      if (arrivals.size >= MOST_NAMES) forget(nowMs);
      arrivals.set(name, { ms: nowMs + intervalMs });
      return 0;
    }
    // A limit that was lowered leaves at most a full second to wait for.
    const arrival = Math.min(Math.max(known.ms, nowMs), nowMs + 1_000);
    // Sums of intervals are not exact: without the margin the last call of a burst could be refused.
    if (arrival + intervalMs > nowMs + 1_000.001)
      return Math.max(1, Math.ceil((arrival + intervalMs - nowMs) / 1_000) - 1);
    known.ms = arrival + intervalMs;
    return 0;
  };

  function forget(nowMs: number): void {
    for (const [name, { ms }] of arrivals) if (ms <= nowMs) arrivals.delete(name);
    // All of them called within this second: the one that was first seen begins again.
    if (arrivals.size >= MOST_NAMES) arrivals.delete(arrivals.keys().next().value!);
  }
}
