import { existsSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { StackError } from '../process/errors.ts';
import { findSupervisor, type Home } from '../process/home.ts';
import { readJson, replaceDurably } from '../process/files.ts';

/** The home in which a backup is loaded; it then takes the place of the stack's own. */
export function restoringHome(home: Home): Home {
  return { ...home, folder: `${home.folder}.restoring` };
}

/** What the last step of a restore needs, written into the folder once everything is loaded. */
type Restored = { from: string; kept: string };

/** Throws where the stack's folder can't be moved aside. */
export function refuseMount({ folder }: Home): void {
  if (existsSync(folder) && statSync(folder).dev !== statSync(dirname(folder)).dev)
    throw new StackError(`${folder} is a mount, which can't be moved aside: set KEYTALLY_HOME to a folder in it`);
}

/**
 * Throws while a restore is at work: then the note of who runs the stack is that of the restore. It holds the folder that it loads into
 * until that is the stack's; a new machine has no other.
 */
export function refuseRestoring(home: Home): void {
  const found = findSupervisor(restoringHome(home));
  if (found)
    throw new StackError(
      `make restore is at work on the stack in ${home.folder}: wait until it is done, or end it with kill ${found.pid}`,
    );
}

/** Throws unless the stack of this home runs. */
export function requireRunning(home: Home): void {
  if (!findSupervisor(home)) throw new StackError(`no stack runs in ${home.folder}: start it with make up`);
}

/** The file that says what a restore has lost: it lasts where what was printed does not. */
export function lostFile({ folder }: Home): string {
  return join(folder, 'lost-since-backup.txt');
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
  replaceDurably(join(restoringHome(home).folder, 'restored.json'), `${JSON.stringify(restored)}\n`);
  if (existsSync(home.folder)) renameSync(home.folder, restored.kept);
  renameSync(restoringHome(home).folder, home.folder);
}

/** Does the last step of a restore that was cut off between its two moves. */
export function finishSwap(home: Home): void {
  const restored = unfinishedSwap(home);
  if (!restored) return;
  renameSync(restoringHome(home).folder, home.folder);
  console.log(`finished the restore from ${restored.from}; the old folder is kept: ${restored.kept}`);
  console.log(`what is lost since the backup is in ${lostFile(home)}`);
}

function unfinishedSwap(home: Home): Restored | undefined {
  if (existsSync(home.folder)) return undefined;
  return readJson<Restored>(join(restoringHome(home).folder, 'restored.json'));
}

// The error may name a log. By the others a restore that begins meanwhile sees that this one is still at work.
const leftBehind = ['logs', 'lock', 'supervisor.json'];

/**
 * Removes what a restore that failed has loaded, which may fill the disk of the old folder, unless the next start finishes it. Its
 * servers must be stopped.
 */
export function removeLoaded(home: Home): void {
  if (unfinishedSwap(home)) return;
  const { folder } = restoringHome(home);
  for (const name of readdirSync(folder))
    if (!leftBehind.includes(name)) rmSync(join(folder, name), { recursive: true });
}
