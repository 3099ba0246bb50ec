import type { Clock } from '../runtime/clock.ts';
import type { ApiError } from '../contract/errors.ts';
import type { Logger } from '../runtime/log.ts';
import { throttle } from '../runtime/throttle.ts';

// While Redis is unavailable every call fails the same way: one line a second says so.
const LOG_EVERY_MS = 1_000;

/** Writes an error of ours to the log: each that was not expected, and of the others one a second. */
export type LogFailure = (error: ApiError, requestId: string) => void;

export function logFailures(log: Logger, clock: Clock): LogFailure {
  const mayLog = throttle(clock, LOG_EVERY_MS);

  return function logFailure(error, requestId) {
    if (error.status === 500) log.error({ requestId, error }, error.errorName);
    // How many failures got no line since the last one; undefined: this one gets none either.
    const skipped = error.status > 500 ? mayLog() : undefined;
    if (skipped !== undefined) log.warn({ requestId, error, notLogged: skipped }, error.errorName);
  };
}
