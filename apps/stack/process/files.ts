import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';

/** Reads a JSON file; undefined when it is missing or is not JSON. */
export function readJson<T>(file: string): T | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as T;
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Replaces a file at once: a reader finds the old text or the new one, never a part. */
export function replaceFile(file: string, text: string): void {
  renameSync(writeFresh(file, text, { mode: 0o600, flush: false }), file);
}

/** Replaces a file that must outlive the machine's end: it is on the disk when this returns. */
export function replaceDurably(file: string, text: string): void {
  renameSync(writeFresh(file, text, { mode: 0o600, flush: true }), file);
  syncFolderOf(file);
}

/**
 * Writes a secret unless there is one, and gives the one that is there. Processes that call it at once get the same. A crash, also
 * of the machine, leaves the whole secret or none, and nobody is given one that the disk may not have yet.
 */
export function writeOnce(file: string, secret: string): string {
  if (!existsSync(file)) {
    const fresh = writeFresh(file, secret, { mode: 0o600, flush: true });
    try {
      // Unlike a rename, it leaves what another process has put there.
      linkSync(fresh, file);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    } finally {
      rmSync(fresh);
    }
    syncFolderOf(file);
  }
  return readFileSync(file, 'utf8');
}

function writeFresh(file: string, text: string, options: { mode: number; flush: boolean }): string {
  const fresh = `${file}.${process.pid}.new`;
  try {
    writeFileSync(fresh, text, options);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
  return fresh;
}

/** The name of a file is on the disk once its folder is. */
export function syncFolderOf(file: string): void {
  const folder = openSync(dirname(file), 'r');
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
