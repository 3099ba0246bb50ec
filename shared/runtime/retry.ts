import type { Clock } from './clock.ts';
import type { Logger } from './log.ts';

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/**
 * Runs `work` until it succeeds, with growing pauses after failures, which are logged under the name `what`. Once the
 * signal is aborted, the next failure is thrown: a program that stops must not wait for a server that is unavailable.
 */
export async function retry<T>(
  clock: Clock,
  signal: AbortSignal,
  log: Logger,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      const result = await work();
      if (attempt > 0) log.info({ attempt }, `${what} works again`);
      return result;
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn({ error, attempt }, `${what} failed; trying again`);
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(attempt, 10), LONGEST_PAUSE_MS);
      await clock.sleep(pauseMs, signal).catch(() => {});
    }
  }
}
