import { flushCompileCache } from 'node:module';
import type { Logger } from './log.ts';

/** A running program or part of one. `stop` lets it finish what it has begun. */
export type Running = { stop(): Promise<void> };

type RunOptions = {
  log: Logger;
  /** Whether an error that nobody waits for need not end the process. */
  isHarmless?: (error: unknown) => boolean;
};

const STOP_WITHIN_MS = 15_000;

/**
 * Runs a program: starts it, and on SIGTERM or SIGINT drains it. A failed start or an uncaught error is logged and ends
 * the process, so that its supervisor starts a new one.
 */
export async function run({ log, isHarmless }: RunOptions, start: () => Promise<Running>): Promise<void> {
  const die = (error: unknown, message: string) => {
    log.fatal({ error }, message);
    process.exit(1);
  };
  process.on('uncaughtException', (error) => die(error, 'uncaught error'));
  process.on('unhandledRejection', (error) => {
    if (isHarmless?.(error)) log.warn({ error }, 'an error that nobody waits for');
    else die(error, 'unhandled rejection');
  });

  const running = await start().catch((error: unknown) => die(error, 'could not start'));
  // Node keeps what it has compiled (NODE_COMPILE_CACHE) when a process ends by itself; one that is killed would leave nothing.
  flushCompileCache();
  let stopping = false;
  const stop = (signal: string) => {
    if (stopping || !running) return;
    stopping = true;
    log.info({ signal }, 'stopping');
    setTimeout(
      () => die(new Error(`still busy ${STOP_WITHIN_MS} ms after ${signal}`), 'could not stop'),
      STOP_WITHIN_MS,
    ).unref();
    running.stop().then(
      () => process.exit(0),
      (error: unknown) => die(error, 'could not stop'),
    );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}
