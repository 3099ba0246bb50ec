import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StackError } from '../process/errors.ts';

const run = promisify(execFile);

interface Wanted {
  /** What messages call it. */
  what: string;
  /** Names of Debian packages; the first that exists is installed. */
  packages: [string, ...string[]];
  brew: string;
  /** What is missing, for users who may not install packages. */
  missing: string;
}

// Installations run one after the other, since apt-get fails at once while another apt-get runs.
let last: Promise<unknown> = Promise.resolve();

/** Installs packages with apt-get if this user may; else throws with the command that would. */
export function installPackage(wanted: Wanted, say: (line: string) => void): Promise<void> {
  const installed = last.then(() => install(wanted, say));
  last = installed.catch(() => {});
  return installed;
}

async function install(wanted: Wanted, say: (line: string) => void): Promise<void> {
  const { what, packages, brew, missing } = wanted;
  const add = (name: string) => `apt-get install -y --no-install-recommends ${name}`;
  const byHand = `apt-get update && ${add(packages[0])}`;
  const rights = await aptRights();
  if (!rights) {
    const command = process.platform === 'darwin' ? `brew install ${brew}` : `sudo sh -c '${byHand}'`;
    throw new StackError(`${missing}; install one, e.g.: ${command}`);
  }
  say(`installing ${what} with apt-get`);
  const any = packages.map(add).join(' || ');
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    const [command, ...args] = rights;
    // apt-get knows no package without its lists. They are fetched only then, since that takes as long as the rest.
    await run(command, [...args, 'sh', '-c', `{ ${any} || { apt-get update && { ${any}; }; }; } 2>&1`], {
      env,
      maxBuffer: 64 * 1024 * 1024,
    });
  } catch (error) {
    const output = (error as { stdout?: string }).stdout ?? '';
    const cause = output.split('\n').findLast((line) => line.startsWith('E: ')) ?? 'apt-get failed';
    throw new StackError(`${what} could not be installed (${cause}); run: ${byHand}`);
  }
}

// What to put before a command so that it runs as root: nothing (`env`) for root, sudo if it asks for no password.
async function aptRights(): Promise<[string, ...string[]] | undefined> {
  const has = (command: string, ...args: string[]) =>
    run(command, args).then(
      () => true,
      () => false,
    );
  if (!(await has('apt-get', '--version'))) return undefined;
  if (process.getuid?.() === 0) return ['env'];
  return (await has('sudo', '-n', 'true')) ? ['sudo', '-n'] : undefined;
}
