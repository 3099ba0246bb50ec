import { readFileSync } from 'node:fs';

/** How many ms the main thread of a process has waited for a core so far; 0 where the system does not tell. */
export function waitedForCore(pid: number | undefined): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}

/** Starts a clock that leaves out the time for which these processes, and this one, wait for a core. Gives the ms since then. */
export function startCoreClock(pids: number[]): () => number {
  const waited = () => [process.pid, ...pids].reduce((sum, pid) => sum + waitedForCore(pid), 0);
  const [began, before] = [performance.now(), waited()];
  return () => performance.now() - began - (waited() - before);
}
