import { spawn } from 'node:child_process';
import { closeSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StackError } from '../process/errors.ts';
import {
  checkout,
  describeVariables,
  envFile,
  findSupervisor,
  logFile,
  readEnvFile,
  type Home,
  type SupervisorNote,
} from '../process/home.ts';
import { readRecords } from '../process/leftovers.ts';
import { openLog } from '../process/log-file.ts';
import { answersOk } from '../process/program.ts';
import { isDecidedHere, programNames } from '../servers/programs.ts';
import { prepareStart, type Message } from './serve.ts';

/** Starts the stack, or finds it running; returns when it is ready to serve. */
export async function up(home: Home): Promise<void> {
  const began = performance.now();
  if (findSupervisor(home)) {
    await waitForRunning(home);
    console.log('keytally is already running on this machine.');
    const note = findSupervisor(home);
    const ignored = note ? ignoredBy(note) : [];
    if (ignored.length > 0)
      console.log(
        note?.service
          ? `It is a service with settings of its own, and goes on without those of this shell: ${ignored.join(', ')} (see docs/one-machine.md).`
          : `It goes on without what changed in the environment since: ${ignored.join(', ')}. To take it: make down, then make up`,
      );
  } else {
    prepareStart(home);
    console.log(`starting keytally on this machine, in ${home.folder}`);
    if (process.getuid?.() === 0)
      console.log(
        'it runs as root, so whoever takes over one of its programs has this machine: start it as a user of its own (docs/one-machine.md)',
      );
    await startSupervisor(home).catch(async (error: unknown) => {
      // Another start of the same stack was first.
      if (findSupervisor(home)) await waitForRunning(home);
      else throw error;
    });
    console.log(`keytally is up after ${((performance.now() - began) / 1000).toFixed(1)} s.`);
  }
  console.log(welcome(home, await consoleLink(home)));
}

/** The variables here that a running stack does not have as they are. A service's own are not expected in a shell. */
function ignoredBy({ variables = {}, service }: SupervisorNote): string[] {
  const now = describeVariables();
  return Object.keys({ ...(!service && variables), ...now }).filter(
    (name) => !isDecidedHere(name) && variables[name] !== now[name],
  );
}

// A second `make up` waits for the first, whether that one still starts the stack or has finished.
async function waitForRunning(home: Home): Promise<void> {
  const found = findSupervisor(home);
  if (!found) throw new StackError('the stack was stopped while this waited for it');
  if (found.checkout !== checkout) {
    throw new StackError(
      `${home.folder} is in use by a stack of the checkout ${found.checkout}; set KEYTALLY_HOME to another folder`,
    );
  }
  for (const [variable, name] of Object.entries({ KEYTALLY_PORT: 'apiPort', BUS: 'bus' } as const))
    if (found[name] !== home[name])
      throw new StackError(
        `the stack in ${home.folder} already runs with ${variable}=${found[name]}, not ${home[name]}: ` +
          'stop it first (make down), or set KEYTALLY_HOME to another folder for a second one',
      );
  const deadline = performance.now() + 60_000;
  for (let told = false; !(await isReady(home)); told = true) {
    if (!findSupervisor(home)) throw new StackError('the stack was stopped while this waited for it');
    if (performance.now() > deadline)
      throw new StackError('the stack runs but is not ready; see make status and make logs');
    if (!told) console.log('keytally is running but not ready yet; waiting');
    await sleep(200);
  }
}

async function isReady(home: Home): Promise<boolean> {
  const wanted = programNames(home.bus);
  const running = readRecords(home.folder).filter(({ name }) => (wanted as string[]).includes(name));
  const ready = await Promise.all(running.map(({ port }) => answersOk(`http://127.0.0.1:${port}/readyz`)));
  return ready.length === wanted.length && ready.every(Boolean) && existsSync(envFile(home));
}

/** Starts the process that watches over the stack, which outlives this one. */
async function startSupervisor(home: Home): Promise<void> {
  const log = openLog(logFile(home, 'supervisor'));
  const child = spawn(process.execPath, [join(checkout, 'apps/stack/main.ts'), 'serve'], {
    cwd: checkout,
    env: { ...process.env, KEYTALLY_HOME: home.folder, KEYTALLY_PORT: String(home.apiPort), BUS: home.bus },
    detached: true,
    stdio: ['ignore', log, log, 'ipc'],
  });
  closeSync(log);
  await new Promise<void>((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', () =>
      reject(new StackError(`the stack ended while it started; see ${logFile(home, 'supervisor')}`)),
    );
    child.on('message', (message: Message) => {
      if ('line' in message) console.log(`  ${message.line}`);
      else if ('failed' in message) reject(new StackError(message.failed));
      else resolve();
    });
  });
  child.removeAllListeners();
  child.disconnect();
  child.unref();
}

/** The address of the console, with a code that signs in who opens it first. */
async function consoleLink(home: Home): Promise<string> {
  const page = `${home.apiUrl}/console`;
  const headers = { Authorization: `Bearer ${readEnvFile(home).KEYTALLY_TOKEN}` };
  const answer = await fetch(`${page}/session/link`, { method: 'POST', headers }).catch(() => undefined);
  return answer?.ok ? `${page}#${((await answer.json()) as { code: string }).code} (once, for 10 minutes)` : page;
}

function welcome(home: Home, consoleLink: string): string {
  return `
  api      ${home.apiUrl}
  verify   ${home.verifyUrl}
  console  ${consoleLink}
  token    ${readEnvFile(home).KEYTALLY_TOKEN ?? ''}

To load them into your shell, and make a first key:

. ${quoted(envFile(home))}; . ${quoted(join(checkout, 'docs/api.sh'))}; first_key
`;
}

function quoted(path: string): string {
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
