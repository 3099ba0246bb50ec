import { readFileSync } from 'node:fs';

/** How many ms the main thread of a process has waited for a core so far; 0 where the system does not tell. */
export function waitedForCore(pid: number | undefined): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}

/**
 * Starts a clock that leaves out the longest time for which one of these processes, or this one, waits for a core; gives the ms
 * since then. All of their waits together may be longer than what they held up.
 */
export function startCoreClock(pids: number[]): () => number {
  const all = [process.pid, ...pids];
  const [began, before] = [performance.now(), all.map(waitedForCore)];
  return () => performance.now() - began - Math.max(...all.map((pid, i) => waitedForCore(pid) - before[i]!));
}
