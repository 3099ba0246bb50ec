import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { checkout } from '../../apps/stack/process/home.ts';

const run = promisify(execFile);

/** Where the checkout of another version is kept. */
export function placeOf(commit: string): string {
  return join(resolve(checkout, process.env.KEYTALLY_HOME || '.keytally'), 'versions', commit);
}

/** Takes a commit of this repository into a folder of its own, unless it is there. */
export async function checkOut(commit: string, folder = placeOf(commit)): Promise<string> {
  await run('git', ['-C', checkout, 'cat-file', '-e', `${commit}^{commit}`]).catch(() => {
    const how = 'fetch the whole history (git fetch --unshallow), or name another one in tests/upgrade/before.ts';
    throw new StackError(`****  THE VERSION BEFORE IS NOT HERE: this clone has no commit ${commit}; ${how}`);
  });
  if (existsSync(folder)) return folder;
  // Renamed at the end, so that what was cut off is not taken for whole.
  const part = `${folder}.part`;
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true, mode: 0o711 });
  await run('sh', ['-c', 'git -C "$1" archive "$2" | tar -x -C "$3"', 'sh', checkout, commit, part]);
  renameSync(part, folder);
  return folder;
}

/** Installs the packages of a checkout's own lockfile. Where it is the same as ours, so are the packages. */
export async function install(folder: string): Promise<void> {
  shareModules(folder);
  const child = spawn('sh', [join(folder, 'apps/stack/install.sh')], { stdio: ['ignore', 'inherit', 'inherit'] });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new StackError(`the packages of ${dirname(folder)} could not be installed`);
}

/** Links our packages where the lockfile is the same, and never where it is another: installing would replace them. */
export function shareModules(folder: string, ours = checkout): void {
  const modules = join(folder, 'node_modules');
  const isSame = readFileSync(join(folder, 'package-lock.json')).equals(readFileSync(join(ours, 'package-lock.json')));
  const found = lstatSync(modules, { throwIfNoEntry: false });
  if (found?.isSymbolicLink()) rmSync(modules);
  else if (found) return;
  if (isSame) symlinkSync(join(ours, 'node_modules'), modules);
}
