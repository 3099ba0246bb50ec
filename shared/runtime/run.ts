import { flushCompileCache } from 'node:module';
import { systemClock, type Clock } from './clock.ts';
import { readConfigOrExit } from './config.ts';
import { makeLogger, type Logger } from './log.ts';
import { makeMetrics, type Metrics } from './metrics.ts';
import { programs } from './programs.ts';
import { startTelemetry, type Telemetry } from './telemetry.ts';
import type { ConfigOf, TelemetryConfig } from './variables.ts';

/** A running program or part of one. `stop` lets it finish what it has begun. */
export type Running = { stop(): Promise<void> };

/** What every part of a program counts, logs and waits by. */
export type Runtime = { metrics: Metrics; log: Logger; clock: Clock };

/** All that a program is started with. */
export type Whole = Runtime & { telemetry: Telemetry; random: () => number };

type Service = 'api' | 'verify' | 'relay' | 'consumer' | 'webhooks';

const STOP_WITHIN_MS = 15_000;

/** Starts a program with its metrics, and with its telemetry, which ends after it. */
export async function begin<Config extends TelemetryConfig, Started extends Running>(
  name: string,
  config: Config,
  log: Logger,
  start: (config: Config, whole: Whole) => Promise<Started>,
  clock = systemClock,
): Promise<Started> {
  const metrics = makeMetrics(name);
  const telemetry = await startTelemetry(name, config, metrics, log);
  const started = await start(config, { metrics, telemetry, log, clock, random: Math.random });
  return {
    ...started,
    async stop() {
      await started.stop();
      await telemetry.stop();
    },
  };
}

/**
 * Runs a program: reads its configuration, starts it, and on SIGTERM or SIGINT drains it. A failed start or an uncaught error is
 * logged and ends the process, so that its supervisor starts a new one; not an error that nobody waits for and that is harmless.
 */
export async function run<Name extends Service>(
  name: Name,
  start: (config: ConfigOf<(typeof programs)[Name]>, log: Logger) => Promise<Running>,
  isHarmless?: (error: unknown) => boolean,
): Promise<void> {
  const config = readConfigOrExit(programs[name]);
  const log = makeLogger(name, config.LOG_LEVEL);
  const die = (error: unknown, message: string) => {
    log.fatal({ error }, message);
    process.exit(1);
  };
  process.on('uncaughtException', (error) => die(error, 'uncaught error'));
  process.on('unhandledRejection', (error) => {
    if (isHarmless?.(error)) log.warn({ error }, 'an error that nobody waits for');
    else die(error, 'unhandled rejection');
  });

  const running = await start(config, log).catch((error: unknown) => die(error, 'could not start'));
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
