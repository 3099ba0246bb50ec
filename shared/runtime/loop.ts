import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from './log.ts';

export type Loop = {
  /** Cuts the pause short; during a run, skips the pause after it. */
  soon(): void;
  /** Waits for the run in progress and starts no other. */
  stop(): Promise<void>;
};

/**
 * Runs `work` at once and then again and again, with a pause after each run, until stopped. A failed run is logged under
 * the name `what`; the next one comes as usual.
 */
export function startLoop(pauseMs: number, log: Logger, what: string, work: () => Promise<void>): Loop {
  let stopped = false;
  let pause = new AbortController();

  async function loop(): Promise<void> {
    while (!stopped) {
      pause = new AbortController();
      await work().catch((error: unknown) => log.warn({ error }, `${what} failed; trying again`));
      if (!stopped) await sleep(pauseMs, undefined, { signal: pause.signal }).catch(() => {});
    }
  }
  const done = loop();

  return {
    soon: () => pause.abort(),
    async stop() {
      stopped = true;
      pause.abort();
      await done;
    },
  };
}
