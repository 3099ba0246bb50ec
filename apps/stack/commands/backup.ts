import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { StackError } from '../process/errors.ts';
import { syncFolderOf } from '../process/files.ts';
import { masterKeyFile, type Home } from '../process/home.ts';
import { requireRunning } from '../restore/folders.ts';
import { untilStopped } from '../process/until-stopped.ts';
import { endOf, ownerEnvironment, startCommand } from '../servers/programs.ts';

/**
 * Writes a backup of the running stack to a file. Under its name the file is whole and on the disk, or not there. The partial
 * file is made by one of several commands alone, so that nobody else writes to it or makes the file meanwhile.
 */
export async function backUp(home: Home, name: string): Promise<number> {
  if (name === '') throw new StackError('name the file to write: make backup FILE=keytally.backup');
  requireRunning(home);
  const file = resolve(name);
  const partial = `${file}.partial`;
  const out = openNew(partial);
  let whole = false;
  try {
    if (existsSync(file)) throw new StackError(`${file} is there already: name another file`);
    const env = ownerEnvironment(home);
    const code = await untilStopped('nothing was backed up', (signal) =>
      endOf(startCommand('backup', [], { env, stdio: ['ignore', out, 'inherit'], signal })),
    );
    if (code !== 0) return code;
    fsyncSync(out);
    renameSync(partial, file);
    whole = true;
  } finally {
    closeSync(out);
    if (!whole) rmSync(partial, { force: true });
  }
  syncFolderOf(file);
  console.log(`in ${file} (${(statSync(file).size / 1e6).toFixed(1)} MB)`);
  console.log(
    `The master key is not in it. Keep a copy of ${masterKeyFile(home)} in another place: signing keys can't be read without it.`,
  );
  return 0;
}

function openNew(partial: string): number {
  try {
    return openSync(partial, 'wx', 0o600);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new StackError(
      `${partial} is there: another make backup writes it, or one that was killed has left it. Then remove it`,
    );
  }
}
