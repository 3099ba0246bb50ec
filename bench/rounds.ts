import { showProgress, usageOf } from './watch.ts';
import { load, type Load, type Round } from './wrk.ts';

/** A server under measurement: its load, the process that answers, and what to do after each round. */
export type Contender = { name: string; load: Load; pid: number; after?(): Promise<void> };
/** A round, or the medians of some; `cpuUs` is the CPU time of the answering process per answer. */
export type Measured = Omit<Round, 'valid'> & { cpuUs: number };
/** The rounds of each contender, by name. */
export type Seen = Map<string, Measured[]>;

// Long enough to warm the caches of a contender that was idle.
const WARM_UP_SECONDS = 1;

/**
 * Runs rounds of all contenders in turn, so that a noisy minute of the machine affects each of them. A first round, in which V8
 * compiles, does not count, nor does a second of warm-up before each round.
 */
export async function runRounds(what: string, contenders: Contender[], rounds: number): Promise<Seen> {
  const seen: Seen = new Map(contenders.map(({ name }) => [name, []]));
  let done = 0;
  for (let round = -1; round < rounds; round++) {
    for (const contender of contenders) {
      await load({ ...contender.load, seconds: WARM_UP_SECONDS });
      const before = cpuSeconds(contender);
      const one = await load(contender.load);
      const cpuUs = ((cpuSeconds(contender) - before) / (one.perSecond * contender.load.seconds)) * 1e6;
      if (round >= 0) seen.get(contender.name)!.push({ ...one, cpuUs });
      await contender.after?.();
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

function medians(all: Measured[]): Measured {
  const of = (name: keyof Measured) => median(all.map((one) => one[name]));
  return { perSecond: of('perSecond'), p50Us: of('p50Us'), p99Us: of('p99Us'), cpuUs: of('cpuUs') };
}

function cpuSeconds({ pid }: Contender): number {
  return usageOf(pid)[0]?.cpuSeconds ?? NaN;
}
