import type { Mutant } from '../mutant.ts';

export const clients: Mutant[] = [];
