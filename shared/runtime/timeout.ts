/**
 * Settles as the promise does, or is rejected after so many milliseconds; what comes later is dropped. An answer that
 * has arrived in time is not late because this process was too busy to read it: it is read before the rejection.
 */
export function withTimeout<T>(
  ms: number,
  promise: Promise<T>,
  late = () => new Error(`no answer within ${ms} ms`),
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => setImmediate(() => reject(late())), ms);
    // Not by finally, whose promises a verification would pay for.
    promise.then(
      (answer) => {
        clearTimeout(timer);
        resolve(answer);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
