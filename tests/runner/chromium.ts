import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { installPackage } from '../../apps/stack/servers/packages.ts';

const run = promisify(execFile);
const names = ['chromium', 'chromium-headless-shell', 'google-chrome', 'chromium-browser'];

/** Finds a Chromium, or installs one where it may, else says which command would. Gives its command. */
export async function ensureChromium(say: (line: string) => void): Promise<string> {
  const found = await findChromium();
  if (found) return found;
  await installPackage(
    {
      what: 'Chromium',
      packages: ['chromium-headless-shell', 'chromium'],
      brew: '--cask chromium',
      missing: 'the page of the documentation is tested in Chromium, and there is none',
    },
    say,
  );
  const installed = await findChromium();
  if (!installed) throw new StackError('Chromium was installed, but can not be started');
  return installed;
}

async function findChromium(): Promise<string | undefined> {
  for (const name of names) {
    const version = await run(name, ['--version'], { timeout: 30_000 }).catch(() => undefined);
    if (version) return name;
  }
  return undefined;
}
