import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from './log.ts';

export type Loop = {
  /** Runs now instead of at the end of the pause. */
  soon(): void;
  /** Waits for the run in progress and starts no other. */
  stop(): Promise<void>;
};

/** Does some work again and again, a pause after each time. A failure is logged and the next time comes all the same. */
export function startLoop(pauseMs: number, log: Logger, what: string, work: () => Promise<void>): Loop {
  let stopped = false;
  let pause = new AbortController();

  async function loop(): Promise<void> {
    while (!stopped) {
      pause = new AbortController();
      await work().catch((error: unknown) => log.warn({ error }, `${what} failed; it is tried again`));
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
