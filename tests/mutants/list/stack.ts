import type { Mutant } from '../mutant.ts';

export const stack: Mutant[] = [];
