import type { Mutant } from '../mutant.ts';

export const accounts: Mutant[] = [];
