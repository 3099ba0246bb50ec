import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { StackError } from '../process/errors.ts';

const run = promisify(execFile);

interface Wanted {
  /** What it is called to whoever started this. */
  what: string;
  /** Names of Debian's packages for it, the first that can be had. */
  packages: [string, ...string[]];
  brew: string;
  /** Why it is needed from there, for who may not install anything. */
  missing: string;
}

// One after the other: apt-get fails at once where another one runs.
let last: Promise<unknown> = Promise.resolve();

/** Installs something with apt-get where this user may, else says which command would. */
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
    // Without its lists apt-get knows no package: fetched only then, for that takes as long as all the rest.
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

// What stands before a command so that it runs as root: nothing (`env`) as root, sudo where it asks for no password.
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
