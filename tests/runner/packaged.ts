// Programs that Debian packages, with which some files are tested.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { installPackage } from '../../apps/stack/servers/packages.ts';

type Packaged = Parameters<typeof installPackage>[0] & { commands: string[]; version: string };

// Debian puts servers into a folder that a user's PATH may lack.
const gateway = (name: string, version: string): Packaged => ({
  what: name,
  commands: [name, `/usr/sbin/${name}`],
  version,
  packages: [name],
  brew: name,
  missing: `the example for ${name} is tested with ${name}, which is not installed`,
});

/** By the end of the names of the files that are tested with them. */
export const packaged = {
  nginx: gateway('nginx', '-v'),
  caddy: gateway('caddy', 'version'),
  haproxy: gateway('haproxy', '-v'),
  chromium: {
    what: 'Chromium',
    commands: ['chromium', 'chromium-headless-shell', 'google-chrome', 'chromium-browser'],
    version: '--version',
    packages: ['chromium-headless-shell', 'chromium'],
    brew: '--cask chromium',
    missing: 'pages are tested in Chromium, and none is installed',
  },
  systemd: {
    what: 'systemd',
    commands: ['systemd-analyze'],
    version: '--version',
    packages: ['systemd'],
    brew: 'systemd, which runs on Linux alone',
    missing: 'units are tested with systemd-analyze, which is not installed',
  },
} satisfies Record<string, Packaged>;

/** Gives the command of a program: finds it, or installs it if this user may; else throws with the command that would. */
export async function ensurePackaged(name: keyof typeof packaged, say: (line: string) => void): Promise<string> {
  const wanted: Packaged = packaged[name];
  const found = await find(wanted);
  if (found) return found;
  await installPackage(wanted, say);
  const installed = await find(wanted);
  if (!installed) throw new StackError(`${wanted.what} was installed but does not start`);
  return installed;
}

async function find({ commands, version }: Packaged): Promise<string | undefined> {
  for (const command of commands)
    if (await promisify(execFile)(command, [version], { timeout: 30_000 }).catch(() => undefined)) return command;
  return undefined;
}
