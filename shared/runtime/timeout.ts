import type { Clock } from './clock.ts';

/** Nobody answered in time. A client is told to repeat its request. */
export class NoAnswerError extends Error {}

/**
 * Settles as the promise does, or rejects with `timeoutError()` after `ms` milliseconds; a later result is dropped. An
 * answer that arrived in time still counts when this process was too busy to read it: the event loop reads it before the
 * rejection.
 */
export function withTimeout<T>(
  clock: Clock,
  ms: number,
  promise: Promise<T>,
  timeoutError: () => Error = () => new NoAnswerError(`no answer within ${Math.round(ms)} ms`),
): Promise<T> {
  return new Promise((resolve, reject) => {
    let late: NodeJS.Immediate | undefined;
    const cancel = clock.after(ms, () => (late = setImmediate(() => reject(timeoutError()))));
    const end = () => {
      cancel();
      clearImmediate(late);
    };
    // No `finally`: every verification would pay for the promises it makes.
    promise.then(
      (answer) => {
        end();
        resolve(answer);
      },
      (error: unknown) => {
        end();
        reject(error);
      },
    );
  });
}
