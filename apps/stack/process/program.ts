import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readFileSync, renameSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure, StackError } from './errors.ts';
import { identify, isAlive, type ProcessId } from './processes.ts';

/** A server or a program of ours: how it is started, how it says that it is ready, how it is stopped. */
export interface Program {
  name: string;
  port: number;
  command: string;
  args: string[];
  env: Record<string, string | undefined>;
  /** The user it runs as, where that is not us. */
  owner?: { uid: number; gid: number } | undefined;
  isReady(): Promise<boolean>;
  stopSignal: NodeJS.Signals;
  /** What it may take to finish what it is in the middle of. */
  stopWithinMs: number;
}

export interface Started extends ProcessId {
  /** Settles when the process has ended, with the words for it. */
  ended: Promise<string>;
}

/** Starts a program with its output at the end of its log. It lives on when we die, and doesn't get our Ctrl-C. */
export async function start({ name, command, args, env, owner }: Program, logFile: string): Promise<Started> {
  const log = openLog(logFile);
  const child = spawn(command, args, { env, ...owner, detached: true, stdio: ['ignore', log, log] });
  closeSync(log);
  // Listened for from the start: a process that ends at once must not be missed.
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

/** Waits until a started program is ready; says why when it ends or takes too long. */
export async function untilReady(
  program: Program,
  started: Started,
  logFile: string,
  withinMs = 60_000,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  let ended: string | undefined;
  void started.ended.then((how) => (ended = how));
  while (!(await program.isReady())) {
    // The words for it come a moment after the process is gone.
    if (!isAlive(started)) ended ??= await started.ended;
    if (ended !== undefined) throw new StackError(`${program.name} ${ended}: ${lastLine(logFile)} (${logFile})`);
    if (performance.now() > deadline) {
      throw new StackError(`${program.name} was not ready within ${withinMs / 1000} s; see ${logFile}`);
    }
    await sleep(25);
  }
}

/** Whether an address answers with 200, soon. */
export async function answersOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(1_000) });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}

// Kept to two files, so that a stack that runs for months doesn't fill the disk by what it restarts.
function openLog(file: string): number {
  const log = openSync(file, 'a', 0o600);
  if (fstatSync(log).size < 64 * 1024 * 1024) return log;
  closeSync(log);
  renameSync(file, `${file}.1`);
  return openSync(file, 'a', 0o600);
}

function lastLine(file: string): string {
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  const line = lines.findLast((text) => /fatal|error|panic/i.test(text)) ?? lines.at(-1);
  return line ? line.slice(0, 300) : 'it said nothing';
}
