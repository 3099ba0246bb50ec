import { readFileSync } from 'node:fs';

/** How many ms the main thread of a process has waited for a core so far; 0 where the system does not tell. */
export function waitedForCore(pid: number | undefined): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6;
  } catch {
    return 0;
  }
}
