import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { runToEnd } from '../process/errors.ts';

/** What is kept for all checkouts of a user. */
export function cacheFolder(): string {
  return process.env.KEYTALLY_CACHE || join(homedir(), '.cache/keytally');
}

/**
 * A file of a folder that is kept for all checkouts of a user. `make` fills the folder if the file is not there; it gets its name when it is
 * whole, so that a download which was cut off never looks so.
 */
export async function kept(name: string, file: string, make: (folder: string) => Promise<void>): Promise<string> {
  const cache = cacheFolder();
  const folder = join(cache, name);
  const path = join(folder, file);
  if (statSync(path, { throwIfNoEntry: false })) return path;
  mkdirSync(cache, { recursive: true });
  const fresh = mkdtempSync(join(cache, `${name}.new-`));
  try {
    await make(fresh);
    // Another one may have put it there meanwhile, and use it.
    if (statSync(path, { throwIfNoEntry: false })) return path;
    rmSync(folder, { recursive: true, force: true });
    renameSync(fresh, folder);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return path;
}

/** Installs a pinned package of PyPI into a folder that is kept; gives a file of it. `requirements` names versions and hashes. */
export function keptFromPip(name: string, file: string, requirements: string, flags: string[] = []): Promise<string> {
  return kept(name, file, async (folder) => {
    const given = ['--quiet', '--require-hashes', '--target', folder, '-r', requirements, ...flags];
    const failed = 'packages for Python could not be fetched by pip';
    await runToEnd(failed, 'python3', ['-m', 'pip', 'install', ...given], { timeout: 10 * 60_000 });
  });
}
