import type { Mutant } from '../mutant.ts';

export const shared: Mutant[] = [
  {
    name: 'at most 9,000,000,000 credits',
    file: 'shared/values/credits.ts',
    from: 'micros <= MAX_MICROS ?',
    to: 'micros < MAX_MICROS ?',
    seenBy: 'shared/values/credits.test.ts',
  },
];
