/** What a client knows of time, in milliseconds since some start. Its tests give it another one. */
export type Clock = {
  now(): number;
  /** Acts after a while, unless what it gives is called before. In the background, it does not keep the process running. */
  after(ms: number, act: () => void, inBackground?: boolean): () => void;
  /** Waits for a while; fails with the signal's reason once that aborts. */
  pause(ms: number, signal: AbortSignal | undefined): Promise<void>;
};

// A timer of more ends at once.
const LONGEST_MS = 2 ** 31 - 1;
const startTimer = (act: () => void, ms: number) => setTimeout(act, Math.min(ms, LONGEST_MS));

export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, act, inBackground = false) {
    const timer = startTimer(act, ms);
    if (inBackground) (timer as { unref?: () => void }).unref?.();
    return () => clearTimeout(timer);
  },
  pause(ms, signal) {
    return new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        reject(signal!.reason as Error);
      };
      const timer = startTimer(() => {
        signal?.removeEventListener('abort', stop);
        resolve();
      }, ms);
      signal?.addEventListener('abort', stop, { once: true });
    });
  },
};

const clocks = new WeakMap<object, Clock>();

/** Notes the clock of a client, for its guards and its kept usage. */
export function noteClock(client: object, clock: Clock): void {
  clocks.set(client, clock);
}

export function clockOf(client: object): Clock {
  return clocks.get(client) ?? systemClock;
}
