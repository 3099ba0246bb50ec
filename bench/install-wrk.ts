import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { installPackage } from '../apps/stack/servers/packages.ts';

/** Installs wrk, which puts load on HTTP servers, if it is missing. */
export async function ensureWrk(say: (line: string) => void): Promise<void> {
  const there = await promisify(execFile)('wrk', ['--version']).then(
    () => true,
    // It prints its version and exits with 1.
    (error: { code?: unknown }) => error.code === 1,
  );
  if (!there)
    await installPackage({ what: 'wrk', packages: ['wrk'], brew: 'wrk', missing: 'wrk is not on the PATH' }, say);
}
