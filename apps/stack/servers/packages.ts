import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { succeeds } from '../../../shared/runtime/succeeds.ts';
import { runToEnd, StackError } from '../process/errors.ts';

const run = promisify(execFile);

/** A program that is found on this machine, or installed. */
export interface Wanted {
  /** What messages call it. */
  what: string;
  /** Its names; the first that starts is taken. */
  commands: string[];
  /** The argument by which it says its version. */
  version: string;
  /** Whether a version will do, by what it says. */
  isNew?: (said: string) => boolean;
  /** Names of Debian packages; the first that exists is installed. */
  packages: [string, ...string[]];
  brew: string;
  /** What is missing, for users who may not install packages. */
  missing: string;
}

// Installations run one after the other, since apt-get fails at once while another apt-get runs.
let last: Promise<unknown> = Promise.resolve();

/** Gives the command of a program: finds it, or installs it if this user may; else throws with the command that would. */
export async function ensureProgram(wanted: Wanted, say: (line: string) => void): Promise<string> {
  const found = await find(wanted);
  if (found) return found;
  const installing = last.then(() => install(wanted, say));
  last = installing.catch(() => {});
  await installing;
  const installed = await find(wanted);
  if (!installed) throw new StackError(`${wanted.what} was installed, but does not start or is too old`);
  return installed;
}

async function find({ commands, version, isNew }: Wanted): Promise<string | undefined> {
  type Said = { code?: unknown; stdout?: string; stderr?: string };
  for (const command of commands) {
    const said = await run(command, [version], { timeout: 30_000 }).catch((error: Said): Said => error);
    // Some say their version and fail.
    const isThere = isNew ? isNew(`${said.stdout}${said.stderr}`) : !('code' in said);
    if (isThere) return command;
  }
  return undefined;
}

async function install({ what, packages, brew, missing }: Wanted, say: (line: string) => void): Promise<void> {
  const add = (name: string) => `apt-get install -y --no-install-recommends ${name}`;
  const byHand = `apt-get update && ${add(packages[0])}`;
  const rights = await aptRights();
  if (!rights) {
    const command = process.platform === 'darwin' ? `brew install ${brew}` : `sudo sh -c '${byHand}'`;
    throw new StackError(`${missing}; install one, e.g.: ${command}`);
  }
  say(`installing ${what} with apt-get`);
  const any = packages.map(add).join(' || ');
  const [command, ...args] = rights;
  // apt-get knows no package without its lists. They are fetched only then, since that takes as long as the rest.
  const script = `{ ${any} || { apt-get update && { ${any}; }; }; } 2>&1`;
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, maxBuffer: 64 * 1024 * 1024 };
  await runToEnd(`${what} could not be installed by ${byHand}`, command, [...args, 'sh', '-c', script], options);
}

// What to put before a command so that it runs as root: nothing (`env`) for root, sudo if it asks for no password.
async function aptRights(): Promise<[string, ...string[]] | undefined> {
  const has = (command: string, ...args: string[]) => succeeds(run(command, args));
  if (!(await has('apt-get', '--version'))) return undefined;
  if (process.getuid?.() === 0) return ['env'];
  return (await has('sudo', '-n', 'true')) ? ['sudo', '-n'] : undefined;
}
