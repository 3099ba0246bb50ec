import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A process, named so that a later process with the same number is not mistaken for it. */
export interface ProcessId {
  pid: number;
  /** When it started, as the system writes it. */
  startedAt: string;
}

/** Names a running process; undefined when no process has this number. */
export function identify(pid: number): ProcessId | undefined {
  const startedAt = process.platform === 'linux' ? startOnLinux(pid) : startByPs(pid);
  return startedAt === undefined ? undefined : { pid, startedAt };
}

export function isAlive({ pid, startedAt }: ProcessId): boolean {
  return identify(pid)?.startedAt === startedAt;
}

/** Asks a process to stop, and kills it when it has not stopped in time. Gives whether it stopped when asked. */
export async function stopProcess(id: ProcessId, signal: NodeJS.Signals, withinMs: number): Promise<boolean> {
  send(id, signal);
  if (await isGone(id, withinMs)) return true;
  send(id, 'SIGKILL');
  await isGone(id, 5_000);
  return false;
}

async function isGone(id: ProcessId, withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (isAlive(id)) {
    if (performance.now() > deadline) return false;
    await sleep(20);
  }
  return true;
}

function send(id: ProcessId, signal: NodeJS.Signals): void {
  if (!isAlive(id)) return;
  try {
    process.kill(id.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

// A process that has ended counts as gone even while its parent has not waited for it: in a container no parent may.
function startOnLinux(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the program's name, which may hold spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (fields[0] === 'Z' || fields[0] === 'X') return undefined;
    bootId ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${bootId}/${fields[19]}`;
  } catch {
    return undefined;
  }
}

let bootId: string | undefined;

function startByPs(pid: number): string | undefined {
  try {
    const [state, ...start] = execFileSync('ps', ['-o', 'state=,lstart=', '-p', String(pid)], { encoding: 'utf8' })
      .trim()
      .split(/\s+/);
    return state === undefined || state.startsWith('Z') ? undefined : start.join(' ');
  } catch {
    return undefined;
  }
}
