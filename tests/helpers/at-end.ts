/** Has something done once all tests of the file have run, what was asked for last first; or before, by the function that this gives. */
export function atEnd<Result>(work: () => Result): () => Result {
  let done: { result: Result } | undefined;
  const once = () => (done ??= { result: work() }).result;
  (globalThis as { UVU_ENDS?: (() => unknown)[] }).UVU_ENDS?.push(once);
  return once;
}
