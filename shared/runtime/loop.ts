import { untilNext, type Clock } from './clock.ts';
import type { Logger } from './log.ts';

export type Loop = ReturnType<typeof startLoop>;

/**
 * Runs `work` at once and then at each multiple of the pause, until stopped. A failed run is logged under
 * the name `what`; the next one comes as usual. A run may say how long to pause after it. One of many steps looks at its signal
 * between them.
 */
export function startLoop(
  clock: Clock,
  pauseMs: number,
  log: Logger,
  what: string,
  work: (stopping: AbortSignal) => Promise<number | void>,
) {
  const stopping = new AbortController();
  let pause = new AbortController();

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      pause = new AbortController();
      const nextMs = await work(stopping.signal).catch((error: unknown) => {
        log.warn({ error }, `${what} failed; trying again`);
      });
      if (!stopping.signal.aborted)
        await clock.sleep(nextMs ?? untilNext(clock, pauseMs), pause.signal).catch(() => {});
    }
  }
  const done = loop();

  return {
    /** Cuts the pause short; during a run, skips the pause after it. */
    soon: () => pause.abort(),
    /** Waits for the run in progress, which hears of it, and starts no other. */
    async stop(): Promise<void> {
      stopping.abort();
      pause.abort();
      await done;
    },
  };
}
