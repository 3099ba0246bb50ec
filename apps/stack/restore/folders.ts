import { existsSync, lstatSync, realpathSync, renameSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { StackError } from '../process/errors.ts';
import type { Home } from '../process/home.ts';
import { readJson, replaceFile } from '../process/json-file.ts';

/** The home in which a backup is loaded; it then takes the place of the stack's own. */
export function restoringHome(home: Home): Home {
  return { ...home, folder: `${home.folder}.restoring` };
}

/** What the last step of a restore needs, written into the folder once everything is loaded. */
type Restored = { from: string; kept: string };

/** Throws where the stack's folder can't be moved aside. A link is followed: what it leads to is moved. */
export function movable(home: Home): Home {
  if (!existsSync(home.folder)) return home;
  const folder = lstatSync(home.folder).isSymbolicLink() ? realpathSync(home.folder) : home.folder;
  if (statSync(folder).dev !== statSync(dirname(folder)).dev)
    throw new StackError(`${folder} is a mount, which can't be moved aside: set KEYTALLY_HOME to a folder in it`);
  return { ...home, folder };
}

/** A name beside the stack's folder for what was in it. */
export function nameForOld({ folder }: Home, now: Date): string {
  return `${folder}.before-restore-${now.toISOString().replace(/[-:]|\.\d+/g, '')}`;
}

/**
 * Puts the loaded folder in the place of the old one, which is kept.
 * 1. Note that it is whole. A crash before this leaves the old folder as it is.
 * 2. Move the old folder aside.
 * 3. Move the new one to its place. A crash before this step leaves none there: `finishSwap` does the step.
 */
export function swap(home: Home, restored: Restored): void {
  replaceFile(join(restoringHome(home).folder, 'restored.json'), `${JSON.stringify(restored)}\n`);
  if (existsSync(home.folder)) renameSync(home.folder, restored.kept);
  renameSync(restoringHome(home).folder, home.folder);
}

/** Does the last step of a restore that was cut off between its two moves; gives what it restored. */
export function finishSwap(home: Home): Restored | undefined {
  const { folder } = restoringHome(home);
  const restored = readJson<Restored>(join(folder, 'restored.json'));
  if (!restored || existsSync(home.folder)) return undefined;
  renameSync(folder, home.folder);
  return restored;
}
