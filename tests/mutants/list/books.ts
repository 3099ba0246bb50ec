import type { Mutant } from '../mutant.ts';

export const books: Mutant[] = [];
