import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { installPackage } from '../../apps/stack/servers/packages.ts';

const run = promisify(execFile);
const names = ['chromium', 'chromium-headless-shell', 'google-chrome', 'chromium-browser'];

/** Gives the command of a Chromium: finds it, or installs it if this user may; else throws with the command that would. */
export async function ensureChromium(say: (line: string) => void): Promise<string> {
  const found = await findChromium();
  if (found) return found;
  await installPackage(
    {
      what: 'Chromium',
      packages: ['chromium-headless-shell', 'chromium'],
      brew: '--cask chromium',
      missing: 'the documentation page is tested in Chromium, and none is installed',
    },
    say,
  );
  const installed = await findChromium();
  if (!installed) throw new StackError('Chromium was installed but does not start');
  return installed;
}

async function findChromium(): Promise<string | undefined> {
  for (const name of names) {
    const version = await run(name, ['--version'], { timeout: 30_000 }).catch(() => undefined);
    if (version) return name;
  }
  return undefined;
}
