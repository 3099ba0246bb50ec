/** A small change of the product that a test must notice. `from` stands in the file once. */
export type Mutant = { name: string; file: string; from: string; to: string; seenBy: string };

export const mutants: Mutant[] = [
  {
    name: 'at most 9,000,000,000 credits',
    file: 'shared/values/credits.ts',
    from: 'micros <= MAX_MICROS ?',
    to: 'micros < MAX_MICROS ?',
    seenBy: 'shared/values/credits.test.ts',
  },
];
