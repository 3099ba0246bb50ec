import { readFileSync, writeFileSync } from 'node:fs';
import { number } from './results.ts';

/** What a process has used. */
export type Usage = { cpuSeconds: number; rssMb: number; peakMb: number };

const TICKS_PER_SECOND = 100;

/** What a process has used: one value on Linux, none elsewhere. */
export function usageOf(pid: number): Usage[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the program's name, which may hold spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const mb = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) / 1024;
    // Its own time, and that of children that have ended.
    const cpuSeconds = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND;
    return [{ cpuSeconds, rssMb: mb('VmRSS'), peakMb: mb('VmHWM') }];
  } catch {
    return [];
  }
}

/** The CPU time of a process and its children, NaN where the system does not tell. */
export function cpuSecondsOf(pid: number): number {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
    return children.reduce((sum, child) => sum + cpuSecondsOf(child), usageOf(pid)[0]?.cpuSeconds ?? NaN);
  } catch {
    return NaN;
  }
}

/** Shows progress: in one line on a terminal, else in a line for each quarter. */
export function showProgress(what: string, done: number, all: number): void {
  const line = `  ${what.padEnd(20)} ${number(done).padStart(9)} / ${number(all)}`;
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}${done >= all ? '\n' : ''}`);
  else if (Math.floor((4 * done) / all) !== shown) console.log(line);
  shown = Math.floor((4 * done) / all);
}

let shown = 0;

/** The most memory that a process has taken since `resetPeak`, in MB; NaN where the system does not tell. */
export function peakOf(pid: number): number {
  return usageOf(pid)[0]?.peakMb ?? NaN;
}

/** Linux counts the peak of a process again from now on: gives what it takes now. Elsewhere the peak is that of the process's life. */
export function resetPeak(pid: number): number {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
  } catch {}
  return usageOf(pid)[0]?.rssMb ?? NaN;
}
