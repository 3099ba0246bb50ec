import type { Clock } from './clock.ts';

/**
 * A function that gives its last result again for `ms` after it was made: all who ask meanwhile, or while it is being made,
 * share it. A failure is not kept.
 */
export function keepFor<T>(clock: Clock, ms: number, make: () => Promise<T>): () => Promise<T> {
  let kept: Promise<T> | undefined;
  let until = Infinity;
  return () => {
    if (kept !== undefined && clock.monotonic() < until) return kept;
    const making = make();
    kept = making;
    until = Infinity;
    making.then(
      () => (until = clock.monotonic() + ms),
      () => (kept = undefined),
    );
    return making;
  };
}
