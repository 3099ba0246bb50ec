import type { Mutant } from '../mutant.ts';

export const verify: Mutant[] = [];
