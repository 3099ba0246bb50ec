import { sum } from '../shared/books/sums/booked.ts';
import { cpuSecondsOf, showProgress } from './watch.ts';
import type { Round } from './wrk.ts';

/** What is measured: its load, the processes that work for it, and what to do after each load. */
export type Contender = {
  name: string;
  /** What a load of so many seconds needs: its CPU does not count. */
  prepare?(seconds: number): Promise<void>;
  /** Puts load on it for so many seconds. */
  load(seconds: number): Promise<Round>;
  /** The processes whose CPU counts, with that of their children, by name. */
  pids: Record<string, number | number[]>;
  /** Ends what the load left to do. The CPU that this takes counts. */
  settle?(): Promise<void>;
};
/** A round, or the medians of some; `cpuUs` is the CPU time of each process per call. */
export type Measured = { perSecond: number; p50Us: number; p99Us: number; cpuUs: Record<string, number> };
/** The rounds of each contender, by name. */
export type Seen = Map<string, Measured[]>;

// Long enough for V8 to compile what is called, and to warm the caches of a contender that was idle.
const FIRST_SECONDS = 2;
const WARM_UP_SECONDS = 1;

/**
 * Runs rounds of all contenders in turn, so that a noisy minute of the machine affects each of them. A first round, in which V8
 * compiles, does not count, nor does a second of warm-up before each of the others.
 */
export async function runRounds(
  what: string,
  contenders: Contender[],
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<Seen> {
  const seen: Seen = new Map(contenders.map(({ name }) => [name, []]));
  let done = 0;
  for (let round = 0; round <= rounds; round++) {
    for (const contender of contenders) {
      if (round > 0) await measured(contender, WARM_UP_SECONDS);
      const one = await measured(contender, round > 0 ? seconds : Math.min(FIRST_SECONDS, seconds));
      if (round > 0) seen.get(contender.name)!.push(one);
      showProgress(what, ++done, (rounds + 1) * contenders.length);
    }
  }
  return seen;
}

/** The medians of each contender over some runs. */
export function mediansOf(runs: Seen[]): Map<string, Measured> {
  const names = [...runs[0]!.keys()];
  return new Map(names.map((name) => [name, medians(runs.flatMap((seen) => seen.get(name)!))]));
}

/** The median of some figures. */
export function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN;
}

async function measured(contender: Contender, seconds: number): Promise<Measured> {
  await contender.prepare?.(seconds);
  const before = cpuSeconds(contender);
  const { calls, perSecond, p50Us, p99Us } = await contender.load(seconds);
  await contender.settle?.();
  const spent = Object.entries(cpuSeconds(contender));
  const cpuUs = Object.fromEntries(spent.map(([name, cpu]) => [name, ((cpu - before[name]!) / calls) * 1e6]));
  return { perSecond, p50Us, p99Us, cpuUs };
}

function medians(all: Measured[]): Measured {
  const of = (figure: (one: Measured) => number) => median(all.map(figure));
  const processes = Object.keys(all[0]!.cpuUs);
  const cpuUs = Object.fromEntries(processes.map((name) => [name, of((one) => one.cpuUs[name]!)]));
  return { perSecond: of((one) => one.perSecond), p50Us: of((one) => one.p50Us), p99Us: of((one) => one.p99Us), cpuUs };
}

function cpuSeconds({ pids }: Contender): Record<string, number> {
  return Object.fromEntries(Object.entries(pids).map(([name, of]) => [name, sum([of].flat().map(cpuSecondsOf))]));
}
