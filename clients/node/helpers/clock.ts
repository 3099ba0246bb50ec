import type { Clock } from '../clock.ts';

/** A clock that stands still until a test lets time pass. A pause passes at once, and those of one moment together. */
export function makeClock() {
  let nowMs = 0;
  const timers = new Set<{ atMs: number; act: () => void }>();
  const clock = {
    now: () => nowMs,
    after(ms, act) {
      const timer = { atMs: nowMs + ms, act };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    async pause(ms, signal) {
      // Whole: a sum of fractions may miss a timer by the last digit.
      const untilMs = Math.ceil(nowMs + ms);
      await Promise.resolve();
      signal?.throwIfAborted();
      if (untilMs > nowMs) clock.pass(untilMs - nowMs);
    },
    pass(ms: number) {
      nowMs += ms;
      for (const timer of timers) if (timer.atMs <= nowMs && timers.delete(timer)) timer.act();
    },
  } satisfies Clock & { pass(ms: number): void };
  return clock;
}
