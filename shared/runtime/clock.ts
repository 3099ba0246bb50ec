import { setTimeout as sleepOf } from 'node:timers/promises';

/** The time that a program lives by. `main.ts` makes it and gives it to all that waits or looks at it; a test gives its own. */
export type Clock = {
  /** Unix time in ms. */
  now(): number;
  /** Milliseconds that only grow, since an unknown moment. */
  monotonic(): number;
  /** Waits; rejects when the signal is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `work` once, later; in the background it keeps no process alive. Gives what prevents it. */
  after(ms: number, work: () => void, inBackground?: boolean): () => void;
  /** Calls `work` again and again; this alone keeps no process alive. Gives what ends it. */
  every(ms: number, work: () => void): () => void;
};

/** The time of this machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) => sleepOf(ms, undefined, signal && { signal }),
  after(ms, work, inBackground = false) {
    const timer = setTimeout(work, ms);
    if (inBackground) timer.unref();
    return () => clearTimeout(timer);
  },
  every(ms, work) {
    let timer: NodeJS.Timeout;
    const again = () => {
      timer = setTimeout(again, untilNext(systemClock, ms)).unref();
      work();
    };
    timer = setTimeout(again, untilNext(systemClock, ms)).unref();
    return () => clearTimeout(timer);
  },
};

/** How long to wait for the next of the moments that come every `ms`: all that wait for the same ones wake a process once. */
export function untilNext(clock: Clock, ms: number): number {
  const restMs = Math.ceil(ms - (clock.monotonic() % ms));
  // A timer may fire a little before its time.
  return restMs < ms / 20 ? restMs + ms : restMs;
}

/** A signal that is aborted after `ms`. It keeps no process alive that has done its work before. */
export function abortAfter(clock: Clock, ms: number): AbortSignal {
  const controller = new AbortController();
  clock.after(ms, () => controller.abort(), true);
  return controller.signal;
}
