/** Gives at most once in so many ms how often it gave nothing since: for log lines that would else come with each call. */
export function throttle(everyMs: number): () => number | undefined {
  let gaveAt = -Infinity;
  let kept = 0;
  return () => {
    if (performance.now() - gaveAt <= everyMs) {
      kept++;
      return undefined;
    }
    const since = kept;
    gaveAt = performance.now();
    kept = 0;
    return since;
  };
}
