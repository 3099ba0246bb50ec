import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../../apps/stack/process/home.ts';

/** The text of a file of the checkout. */
export const readText = (path: string): string => readFileSync(join(checkout, path), 'utf8');
