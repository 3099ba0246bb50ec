import { execFileSync } from 'node:child_process';

/** Sends a signal to a process and all that it has started: PostgreSQL is one process for each connection. */
export function signalProcessTree(pid: number, signal: NodeJS.Signals): void {
  for (const one of [pid, ...descendants(pid)]) {
    try {
      process.kill(one, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

function descendants(pid: number): number[] {
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  const pairs = table
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number]);
  const below = (parent: number): number[] =>
    pairs.filter(([, ppid]) => ppid === parent).flatMap(([child]) => [child, ...below(child)]);
  return below(pid);
}
