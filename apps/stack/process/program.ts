import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, readFileSync, writeFileSync } from 'node:fs';
import { constants, getPriority, setPriority } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure, NotReadyError, StackError } from './errors.ts';
import { openLog } from './log-file.ts';
import { isHeldByUserOf } from './ports.ts';
import { identify, isAlive, type ProcessId } from './processes.ts';

/** A server or a program of ours: how to start it, how to see that it is ready, how to stop it. */
export interface Program {
  name: string;
  port: number;
  command: string;
  args: string[];
  env: Record<string, string | undefined>;
  /** Whether verify and Redis go before it where they want the same core (`yieldCores`). */
  yields?: boolean;
  /** The user that it runs as, if not ours. */
  owner?: { uid: number; gid: number } | undefined;
  isReady(): Promise<boolean>;
  /** What asks it to stop, by default SIGTERM. */
  stopSignal?: NodeJS.Signals;
  /** How long it may take to finish what it has begun, by default 30 s. */
  stopWithinMs?: number;
}

export interface Started extends ProcessId {
  /** Settles when the process has ended, with how it ended. */
  ended: Promise<string>;
}

/** Starts a program that appends its output to its log. It survives this process, and doesn't get its Ctrl-C. */
export async function start({ name, command, args, env, owner }: Program, logFile: string): Promise<Started> {
  const log = openLog(logFile);
  const child = spawn(command, args, { env, ...owner, detached: true, stdio: ['ignore', log, log] });
  closeSync(log);
  // Listening starts here, so that a process which ends at once is not missed.
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ? `was ended by ${signal}` : `ended with code ${code}`));
  });
  try {
    await once(child, 'spawn');
  } catch (error) {
    throw new StackError(`${name} could not be started: ${describeFailure(error)}`);
  }
  const pid = child.pid as number;
  return { pid, startedAt: identify(pid)?.startedAt ?? 'ended', ended };
}

// By the kernel's weights it still gets a quarter of a core that verify or Redis fill: events must reach the books.
const YIELDS_BY = 5;
const ASK_AGAIN_MS = 150;

/** Lets programs that don't yield go before this one where they want the same core. It costs nobody a core that is free. */
export function yieldCores(pid: number, tries = 20): void {
  try {
    setPriority(pid, Math.min(constants.priority.PRIORITY_LOW, getPriority() + YIELDS_BY));
    // Where Linux shares its time among sessions (autogroup, sched(7)), that counts within a session alone, and each of our
    // programs has one of its own. Elsewhere the file means nothing or is not there.
    writeFileSync(`/proc/${pid}/autogroup`, String(YIELDS_BY));
  } catch (error) {
    // Linux takes one in a tenth of a second from all users but root.
    const isTooSoon = (error as NodeJS.ErrnoException).code === 'EAGAIN';
    if (isTooSoon && tries > 1) setTimeout(yieldCores, ASK_AGAIN_MS, pid, tries - 1).unref();
  }
}

/** Waits until a started program is ready. Throws, with the reason, when it ends, or takes too long (NotReadyError). */
export async function untilReady(
  program: Program,
  started: Started,
  logFile: string,
  withinMs = 120_000,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  let ended: string | undefined;
  void started.ended.then((how) => (ended = how));
  for (;;) {
    // Another user of the machine who took the port first must be told no password, nor be taken for the program.
    const isReady = (await isHeldByUserOf(started, program.port)) && (await program.isReady());
    // `ended` settles a moment after the process is gone.
    if (!isAlive(started)) ended ??= await started.ended;
    if (ended !== undefined) throw new StackError(`${program.name} ${ended}: ${lastLine(logFile)} (${logFile})`);
    if (isReady) return;
    if (performance.now() > deadline)
      throw new NotReadyError(`${program.name} was not ready within ${withinMs / 1000} s; see ${logFile}`);
    await sleep(25);
  }
}

/** Whether an address answers with 200 within a second. */
export async function answersOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(1_000) });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}

function lastLine(file: string): string {
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  const line = lines.findLast((text) => /fatal|error|panic/i.test(text)) ?? lines.at(-1);
  return line ? line.slice(0, 300) : 'its log is empty';
}
