import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from './log.ts';

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

/**
 * Does some work, and again after a failure, for as long as it takes. Once the signal says to stop, the next failure is
 * thrown instead: whoever stops must not wait for a server that is away.
 */
export async function retry<T>(signal: AbortSignal, log: Logger, what: string, work: () => Promise<T>): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      const result = await work();
      if (attempt > 0) log.info({ attempt }, `${what} works again`);
      return result;
    } catch (error) {
      if (signal.aborted) throw error;
      log.warn({ error, attempt }, `${what} failed; it is tried again`);
      const pauseMs = Math.min(FIRST_PAUSE_MS * 2 ** Math.min(attempt, 10), LONGEST_PAUSE_MS);
      await sleep(pauseMs, undefined, { signal }).catch(() => {});
    }
  }
}
