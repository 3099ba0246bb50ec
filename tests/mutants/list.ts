import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Change } from './copy.ts';

/** A small change of the product that a test file must notice. */
export type Mutant = Change & { name: string; seenBy: string };

/**
 * All faults that `make mutants` tries, mixed, so that the six of a day are of several parts. In faults.txt a line with the changed
 * file, and with the test file that must notice where that is not the one beside it, stands before its faults: a name, what stands in
 * the file once (-), and what takes its place (+).
 */
export const mutants = readFaults(join(import.meta.dirname, 'faults.txt')).toSorted((a, b) =>
  orderOf(a) < orderOf(b) ? -1 : 1,
);

/** The faults of a file in this form. */
export function readFaults(path: string): Mutant[] {
  const found: Mutant[] = [];
  let [file, seenBy]: [string, string] = ['', ''];
  const add = (part: 'from' | 'to', line: string) => {
    const one = found.at(-1)!;
    one[part] += one[part] === '' ? line : `\n${line}`;
  };
  for (const line of readFileSync(path, 'utf8').split('\n').filter(Boolean)) {
    const rest = line.slice(1);
    if (line.startsWith(' ')) found.push({ name: rest, file, seenBy, from: '', to: '' });
    else if (line.startsWith('-')) add('from', rest);
    else if (line.startsWith('+')) add('to', rest);
    else [file = '', seenBy = file.replace(/\.ts$/, '.test.ts')] = line.split(' ');
  }
  return found;
}

function orderOf({ name }: Mutant): string {
  return hash('sha256', name);
}
