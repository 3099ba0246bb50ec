/** Settles as the promise does, or is rejected after so many milliseconds; what comes later is dropped. */
export function within<T>(
  ms: number,
  promise: Promise<T>,
  late = () => new Error(`no answer within ${ms} ms`),
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
