// Finds Python and installs what the Python client is built and tested with.
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runToEnd, StackError } from '../process/errors.ts';
import { keptFromPip } from './kept.ts';

/** The client's folder. */
export const pythonClient = join(import.meta.dirname, '../../../clients/python');
// Names the version and the hashes of each package.
const REQUIREMENTS = join(pythonClient, 'requirements.txt');
const OLDEST = 10;

/** Installs the packages from PyPI unless they are there, for all checkouts of a user; gives what programs in Python need to find them. */
export async function ensurePython(): Promise<Record<string, string>> {
  const version = await pythonVersion();
  const packages = hash('sha256', readFileSync(REQUIREMENTS)).slice(0, 12);
  const folder = await keptFromPip(`python-${version}-${packages}`, '', REQUIREMENTS, ['--only-binary', ':all:']);
  return { TEST_PYTHON: 'python3', PYTHONPATH: `${pythonClient}:${folder}`, PYTHONDONTWRITEBYTECODE: '1' };
}

async function pythonVersion(): Promise<string> {
  const print = 'import sys; print("%d.%d" % sys.version_info[:2])';
  const version = (await runToEnd('python3 does not start', 'python3', ['-c', print])).trim();
  const [major, minor] = version.split('.').map(Number) as [number, number];
  if (major !== 3 || minor < OLDEST) throw new StackError(`python3 is ${version}, and 3.${OLDEST} is the oldest`);
  return version;
}
