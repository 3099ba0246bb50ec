// Finds Python and installs what the Python client is built and tested with.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describeFailure, StackError } from '../process/errors.ts';
import { kept } from './kept.ts';

const run = promisify(execFile);
/** The client's folder. */
export const pythonClient = join(import.meta.dirname, '../../../clients/python');
// Names the version and the hashes of each package.
const REQUIREMENTS = join(pythonClient, 'requirements.txt');
const OLDEST = 10;

/** Installs the packages from PyPI unless they are there, for all checkouts of a user; gives what programs in Python need to find them. */
export async function ensurePython(say: (line: string) => void): Promise<Record<string, string>> {
  const version = await versionOf('python3');
  const hash = createHash('sha256').update(readFileSync(REQUIREMENTS)).digest('hex').slice(0, 12);
  const folder = await kept(`python-${version}-${hash}`, '', (folder) => install(folder, say));
  return { TEST_PYTHON: 'python3', PYTHONPATH: `${pythonClient}:${folder}`, PYTHONDONTWRITEBYTECODE: '1' };
}

async function versionOf(python: string): Promise<string> {
  const print = 'import sys; print("%d.%d" % sys.version_info[:2])';
  const { stdout } = await run(python, ['-c', print]).catch((error: unknown) => {
    throw new StackError(`python3 does not start: ${describeFailure(error)}`);
  });
  const [major, minor] = stdout.trim().split('.').map(Number) as [number, number];
  if (major !== 3 || minor < OLDEST)
    throw new StackError(`python3 is ${major}.${minor}, and 3.${OLDEST} is the oldest`);
  return `${major}.${minor}`;
}

async function install(folder: string, say: (line: string) => void): Promise<void> {
  say('fetching packages for Python by pip (some 120 MB)');
  const flags = ['--quiet', '--only-binary', ':all:', '--require-hashes', '--target', folder, '-r', REQUIREMENTS];
  await run('python3', ['-m', 'pip', 'install', ...flags], { timeout: 10 * 60_000 }).catch((error: unknown) => {
    throw new StackError(`packages for Python could not be fetched by pip: ${describeFailure(error)}`);
  });
}
