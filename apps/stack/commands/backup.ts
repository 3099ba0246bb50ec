import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { StackError } from '../process/errors.ts';
import { syncFolderOf } from '../process/files.ts';
import { checkout, masterKeyFile, type Home } from '../process/home.ts';
import { requireRunning } from '../restore/folders.ts';
import { ownerEnvironment } from '../servers/programs.ts';

/**
 * Writes a backup of the running stack to a file. Under its name the file is whole and on the disk, or not there. The partial
 * file is made by one of several commands alone, so that nobody else writes to it or makes the file meanwhile.
 */
export async function backUp(home: Home, name: string): Promise<number> {
  if (name === '') throw new StackError('name the file to write: make backup FILE=keytally.backup');
  requireRunning(home);
  const file = resolve(name);
  const partial = `${file}.partial`;
  let child: ChildProcess | undefined;
  // A signal ends the child alone, so that what it wrote is removed.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child?.kill('SIGTERM'));
  const out = openNew(partial);
  let whole = false;
  try {
    if (existsSync(file)) throw new StackError(`${file} is there already: name another file`);
    child = startBackup(home, out);
    const [code] = (await once(child, 'exit')) as [number | null];
    if (code !== 0) return code ?? 1;
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

function startBackup(home: Home, out: number): ChildProcess {
  return spawn(process.execPath, [join(checkout, 'apps/api/commands/backup.ts')], {
    env: ownerEnvironment(home),
    stdio: ['ignore', out, 'inherit'],
  });
}
