import type { Mutant } from '../mutant.ts';

export const routes: Mutant[] = [];
