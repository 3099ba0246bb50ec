/** A small change of the product that a test must notice. `from` stands in the file once. */
export type Mutant = { name: string; file: string; from: string; to: string; seenBy: string };

export const mutants: Mutant[] = [
  {
    name: 'a key expires at its instant',
    file: 'shared/stores/lua/parts/lookup.lua',
    from: 'nowMs >= tonumber(expiresAtMs)',
    to: 'nowMs > tonumber(expiresAtMs)',
    seenBy: 'shared/verification/script-answers.test.ts',
  },
  {
    name: 'at most 9,000,000,000 credits',
    file: 'shared/values/credits.ts',
    from: 'micros <= MAX_MICROS ?',
    to: 'micros < MAX_MICROS ?',
    seenBy: 'shared/values/credits.test.ts',
  },
];
