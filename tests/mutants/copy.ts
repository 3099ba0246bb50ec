import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { StackError } from '../../apps/stack/process/errors.ts';
import { checkout } from '../../apps/stack/process/home.ts';

/** A change of a file of the product. `from` stands in it once. */
export type Change = { file: string; from: string; to: string };

/** Throws unless the text of a change, which has a name, stands in its file once. */
export function checkPlace(name: string, { file, from, to }: Change): void {
  const times = readFileSync(join(checkout, file), 'utf8').split(from).length - 1;
  if (times !== 1 || from === to) throw new StackError(`"${name}": its text stands in ${file} ${times} times`);
}

/** Copies the checkout: a run that is cut off must leave no fault in it. Gives the place. */
export function copyTree(root: string): string {
  const listed = execFileSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], {
    cwd: checkout,
    encoding: 'utf8',
  });
  for (const path of listed.split('\0').filter(Boolean)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    cpSync(join(checkout, path), join(root, path));
  }
  symlinkSync(join(checkout, 'node_modules'), join(root, 'node_modules'));
  return root;
}

/** Makes a change in a copy of the tree; gives what takes it back. */
export function putIn(root: string, { file, from, to }: Change): () => void {
  const place = join(root, file);
  const text = readFileSync(place, 'utf8');
  writeFileSync(
    place,
    text.replace(from, () => to),
  );
  return () => writeFileSync(place, text);
}
