import { execFile } from 'node:child_process';
import { cpus } from 'node:os';
import { promisify } from 'node:util';
import type { Contender } from './rounds.ts';
import type { Stage } from './stage.ts';

const run = promisify(execFile);
const last = cpus().length - 1;

/**
 * Measures with the contenders on the first core and everything else, Redis and the load included, on the others. Without
 * this, our server would share two cores among three busy processes, and the bare server would share them between two. Works on
 * Linux only.
 */
export async function onOwnCore<T>(stage: Stage, contenders: Contender[], measured: () => Promise<T>): Promise<T> {
  if (process.platform !== 'linux' || last === 0) return measured();
  const pids = contenders.flatMap((one) => Object.values(one.pids));
  const others = [process.pid, ...stage.records().map((one) => one.pid)].filter((pid) => !pids.includes(pid));
  try {
    await place(pids, '0');
    await place(others, `1-${last}`);
    return await measured();
  } finally {
    await place([...pids, ...others], `0-${last}`);
  }
}

// Moves all threads of each process.
async function place(pids: number[], cores: string): Promise<void> {
  for (const pid of new Set(pids)) await run('taskset', ['-acp', cores, String(pid)]);
}
