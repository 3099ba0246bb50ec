import type { Mutant } from '../mutant.ts';

export const api: Mutant[] = [];
