import { setImmediate as turn } from 'node:timers/promises';
import { systemClock, type Clock } from '../../shared/runtime/clock.ts';

/** A clock that stands still until a test moves it. */
export type TestClock = Clock & {
  /** Moves the time on, from one timer that comes due to the next, and lets each do what it can without waiting. */
  advance(ms: number): Promise<void>;
};

/** A clock that begins at a Unix time in ms. */
export function makeTestClock(startMs = Date.UTC(2026, 0, 15, 12)): TestClock {
  type Timer = { at: number; work: () => void };
  const timers = new Set<Timer>();
  let passedMs = 0;

  const clock: TestClock = {
    ...clockWith({ now: () => startMs + passedMs, monotonic: () => passedMs }, (ms, work) => {
      const timer = { at: passedMs + Math.max(0, ms), work };
      timers.add(timer);
      return () => void timers.delete(timer);
    }),
    async advance(ms) {
      const until = passedMs + ms;
      for (;;) {
        await turn();
        const [next] = [...timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at);
        if (!next) break;
        timers.delete(next);
        passedMs = Math.max(passedMs, next.at);
        next.work();
      }
      passedMs = until;
    },
  };
  return clock;
}

/** A clock of timers that somebody else keeps; `set` gives what takes one out, and is told whether it belongs to a loop. */
export function clockWith(
  time: Pick<Clock, 'now' | 'monotonic'>,
  set: (ms: number, work: () => void, isLoop: boolean) => () => void,
): Clock {
  return {
    ...time,
    sleep(ms, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const takeOut = set(ms, resolve, true);
      const abort = () => {
        takeOut();
        reject(signal!.reason as Error);
      };
      if (signal?.aborted) abort();
      else signal?.addEventListener('abort', abort, { once: true });
      return promise.finally(() => signal?.removeEventListener('abort', abort));
    },
    after: (ms, work) => set(ms, work, false),
    every(ms, work) {
      const again = () => {
        takeOut = set(ms, again, true);
        work();
      };
      let takeOut = set(ms, again, true);
      return () => takeOut();
    },
  };
}

/** Time goes by, and no wait ends with it: a busy machine may stand still for seconds. */
export const patientClock: Clock = { ...systemClock, after: () => () => {}, every: () => () => {} };

/** The machine's clock for what sleeps: it wakes at once, later by that time. So who is patient for some seconds need not wait. */
export function makeHastyClock(): Clock {
  let sleptMs = 0;
  return {
    ...patientClock,
    monotonic: () => systemClock.monotonic() + sleptMs,
    sleep: async (ms) => void (sleptMs += ms),
  };
}
