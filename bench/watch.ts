import { readFileSync } from 'node:fs';
import { bar, table } from '../apps/stack/demo/print.ts';
import type { Bus } from '../apps/stack/process/home.ts';

/** What a process has used. */
export type Usage = { cpuSeconds: number; rssMb: number; peakMb: number };

export type Result = {
  bus: Bus;
  seconds: number;
  perSecond: number;
  /** By the process's name. */
  before: Map<string, Usage>;
  halfway: Map<string, Usage>;
  after: Map<string, Usage>;
  /** What is wrong with the books, if anything. */
  wrong: string | undefined;
};

const TICKS_PER_SECOND = 100;
const targets: Record<Bus, number> = { redis: 50_000, kafka: 25_000 };
const TARGET_MB = 300;

/** What a process has used: one value on Linux, none elsewhere. */
export function usageOf(pid: number): Usage[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The second field is the program's name, which may hold spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const mb = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) / 1024;
    const cpuSeconds = (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
    return [{ cpuSeconds, rssMb: mb('VmRSS'), peakMb: mb('VmHWM') }];
  } catch {
    return [];
  }
}

/** The value of a metric of one of our programs. */
export async function readMetric(port: number, name: string): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(5_000) });
  return Number(new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, 'm').exec(await answer.text())?.[1] ?? 0);
}

/** Shows progress: in one line on a terminal, else in a line for each quarter. */
export function showProgress(what: string, done: number, all: number, tookMs?: number): void {
  const speed = tookMs === undefined ? '' : `  ${whole((1000 * done) / tookMs)}/s`;
  const line = `  ${what.padEnd(20)} ${bar(done / all, 30)} ${whole(done).padStart(9)} / ${whole(all)}${speed}`;
  if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}${done >= all ? '\n' : ''}`);
  else if (Math.floor((4 * done) / all) !== shown) console.log(line);
  shown = Math.floor((4 * done) / all);
}

let shown = 0;

/** Prints the measurements beside their targets. */
export function printResults(results: Result[]): void {
  for (const { bus, seconds, perSecond, before, halfway, after, wrong } of results) {
    console.log(`\n${bus === 'redis' ? 'from the outbox directly' : 'through Kafka'}: ${seconds.toFixed(1)} s`);
    console.log(
      `  ${whole(perSecond)} events/s (target: ${whole(targets[bus])})${perSecond < targets[bus] ? '  TOO FEW' : ''}`,
    );
    console.log(`  ${wrong ?? 'the books are right'}\n`);
    const rows = [...after].map(([name, { cpuSeconds, rssMb, peakMb }]) => {
      const used = cpuSeconds - (before.get(name)?.cpuSeconds ?? 0);
      const ours = name === 'consumer' || name === 'relay';
      return [
        name,
        `${used.toFixed(1)} s`,
        `${((1_000_000 * used) / (perSecond * seconds)).toFixed(1)} µs`,
        `${whole(halfway.get(name)?.rssMb ?? NaN)} MB`,
        `${whole(rssMb)} MB`,
        `${whole(peakMb)} MB`,
        ours ? (peakMb < TARGET_MB ? `below ${TARGET_MB}` : `TOO MUCH: target ${TARGET_MB}`) : '',
      ];
    });
    console.log(table(['process', '>CPU', '>per event', '>RSS halfway', '>at the end', '>peak', ''], rows));
  }
}

function whole(value: number): string {
  return Math.round(value).toLocaleString('en');
}
