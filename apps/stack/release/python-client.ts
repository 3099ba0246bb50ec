import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { ensurePython } from '../servers/python.ts';

type Options = { source: string; committedAt: Date; folder: string };

/** Builds the wheel and the source distribution of the Python client. Gives what built them: another zlib may compress differently. */
export async function buildPythonClient({ source, committedAt, folder }: Options): Promise<Record<string, string>> {
  const env = {
    ...process.env,
    ...(await ensurePython()),
    // The time that files in archives have.
    SOURCE_DATE_EPOCH: String(committedAt.getTime() / 1000),
  };
  const python = (...args: string[]) =>
    execFileSync('python3', args, {
      cwd: join(source, 'clients/python'),
      env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    }).trim();
  python('-m', 'hatchling', 'build', '-d', folder);
  const versions =
    'import platform, zlib, importlib.metadata as m; print(platform.python_version(), m.version("hatchling"), zlib.ZLIB_RUNTIME_VERSION)';
  const [version = '', hatchling = '', zlib = ''] = python('-c', versions).split(' ');
  return { python: version, hatchling, pythonZlib: zlib };
}
