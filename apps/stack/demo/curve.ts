import { DAY_MS, QUARTER_MS } from '../../../shared/values/periods.ts';

/** How the calls of a customer are spread over days that are made up. */
export type Curve = {
  /** By how much more the last day has than the first: 1 is twice as much. */
  growth: number;
  /** What a Saturday or Sunday has of a working day. */
  weekend: number;
  /** What the quietest hour of a day has of the busiest one. */
  night: number;
};

/** A quarter of an hour, and how many calls it has. */
export type Quarter = { startMs: number; calls: number };

const HOUR_MS = 60 * 60_000;
// UTC: afternoon in Europe, and the beginning of the day in America.
const BUSIEST_HOUR = 14;

/** Spreads calls over the quarter hours of some days; their sum is `calls`. The same arguments give the same calls. */
export function spread(calls: number, { growth, weekend, night }: Curve, startMs: number, days: number): Quarter[] {
  const starts = Array.from({ length: (days * DAY_MS) / QUARTER_MS }, (_, i) => startMs + i * QUARTER_MS);
  const weights = starts.map((atMs, i) => {
    const hours = Math.abs((((atMs % DAY_MS) / HOUR_MS - BUSIEST_HOUR + 36) % 24) - 12);
    const ofHour = night + (1 - night) * Math.cos((Math.PI * hours) / 24) ** 4;
    const ofDay = [0, 6].includes(new Date(atMs).getUTCDay()) ? weekend : 1;
    const grown = 1 + (growth * i) / starts.length;
    return ofHour * ofDay * grown * around(Math.floor(atMs / DAY_MS), 0.2) * around(atMs / QUARTER_MS, 0.3);
  });
  const sum = weights.reduce((total, one) => total + one, 0);
  let weighed = 0;
  let given = 0;
  return starts.map((atMs, i) => {
    weighed += weights[i]!;
    const upTo = i === starts.length - 1 ? calls : Math.round((calls * weighed) / sum);
    const ofQuarter = upTo - given;
    given = upTo;
    return { startMs: atMs, calls: ofQuarter };
  });
}

/** A number near 1, at most so far from it: always the same for the same `of`. */
function around(of: number, farthest: number): number {
  const random = Math.sin(of * 12.9898) * 43_758.5453;
  return 1 + farthest * (2 * (random - Math.floor(random)) - 1);
}
