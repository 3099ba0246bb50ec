/** Repeatable random choices: everything that a run decides comes from its seed. */
export type Random = {
  /** From 0 up to, not including, 1. */
  next(): number;
  /** A whole number, both ends included. */
  between(least: number, most: number): number;
  chance(share: number): boolean;
  pick<T>(of: readonly T[]): T;
  shuffled<T>(of: readonly T[]): T[];
  /** A source of its own, so that one part's draws do not change another part's. */
  fork(name: string): Random;
};

/** The same seed and name give the same numbers (mulberry32). */
export function makeRandom(seed: number, name = ''): Random {
  let state = Array.from(name).reduce(
    (sum, letter) => Math.imul(sum ^ letter.charCodeAt(0), 0x01000193),
    seed ^ 0x811c9dc5,
  );

  function next(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  const between = (least: number, most: number) => least + Math.floor(next() * (most - least + 1));

  return {
    next,
    between,
    chance: (share) => next() < share,
    pick: (of) => of[between(0, of.length - 1)]!,
    shuffled(of) {
      const left = [...of];
      return of.map(() => left.splice(between(0, left.length - 1), 1)[0]!);
    },
    fork: (part) => makeRandom(seed, `${name}/${part}`),
  };
}
