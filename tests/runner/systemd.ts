import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StackError } from '../../apps/stack/process/errors.ts';
import { installPackage } from '../../apps/stack/servers/packages.ts';

const isThere = () =>
  promisify(execFile)('systemd-analyze', ['--version']).then(
    () => true,
    () => false,
  );

/** Installs systemd-analyze, which checks units, if it is missing. */
export async function ensureSystemd(say: (line: string) => void): Promise<void> {
  if (await isThere()) return;
  const missing = 'systemd-analyze is not on the PATH';
  if (process.platform !== 'linux') throw new StackError(`${missing}: it runs on Linux alone`);
  await installPackage({ what: 'systemd', packages: ['systemd'], brew: 'systemd', missing }, say);
  if (!(await isThere())) throw new StackError('systemd was installed, but systemd-analyze does not start');
}
