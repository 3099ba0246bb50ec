import { showProgress, usageOf } from '../bench-watch.ts';
import { load, type Load, type Round } from './wrk.ts';

/** Something that is measured: a load, the process that answers it, and what is done after each round. */
export type Contender = { name: string; load: Load; pid: number; after?(): Promise<void> };
/** Medians over the rounds; CPU of the answering process for each answer. */
export type Measured = Omit<Round, 'valid'> & { cpuUs: number };

// What stood idle while the others had their turn is back in the caches, and in memory, after that long.
const WARM_UP_SECONDS = 1;

/**
 * Runs rounds of all contenders in turn, so that a noisy minute of the machine falls on each. One round before them does
 * not count, for what was compiled in it, nor does a second before each; gives the medians.
 */
export async function measure(what: string, contenders: Contender[], rounds: number): Promise<Map<string, Measured>> {
  const seen = new Map<string, Measured[]>(contenders.map(({ name }) => [name, []]));
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
  return new Map([...seen].map(([name, all]) => [name, medians(all)]));
}

/** The middle of some figures. */
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
