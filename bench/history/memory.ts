import { readFileSync, writeFileSync } from 'node:fs';

const LOOK_EVERY_MS = 200;

/** The most memory that processes have taken, in MB by name; no entry where the system does not tell. */
export type Peaks = Map<string, number>;

/** Watches the memory of processes, which may be replaced under their names, until it is stopped. */
export function watchMemory(pids: () => Record<string, number | undefined>) {
  let peaks: Peaks = new Map();
  const look = () => {
    for (const [name, pid] of Object.entries(pids())) {
      const mb = pid === undefined ? undefined : peakOf(pid);
      if (mb !== undefined) peaks.set(name, Math.max(mb, peaks.get(name) ?? 0));
    }
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  return {
    /** The peaks count from now on. */
    reset() {
      for (const pid of Object.values(pids())) if (pid !== undefined) resetPeak(pid);
      peaks = new Map();
    },
    peaks() {
      look();
      return new Map(peaks);
    },
    stop: () => clearInterval(timer),
  };
}

function peakOf(pid: number): number | undefined {
  try {
    const [, kb] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return kb === undefined ? undefined : Number(kb) / 1024;
  } catch {
    return undefined;
  }
}

// Linux counts the peak of a process again from now on. Where it can't, the peak is that of the process's life.
function resetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
  } catch {}
}
