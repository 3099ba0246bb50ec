/** Makes a function that gives each of its callers a round of the event loop of their own, in the order in which they came. */
export function inRounds(): () => Promise<void> {
  let last = Promise.resolve();
  return () => (last = last.then(() => new Promise((resolve) => setImmediate(resolve))));
}
