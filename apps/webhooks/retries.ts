const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** How long after each failed try the next one comes, in ms. After the last there is none. */
export const RETRIES_MS: readonly number[] = [
  5_000,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
];

// Up to a tenth more, so that a receiver that was unavailable does not get all at the same moment.
const JITTER = 0.1;

/** When the next try comes after so many failed ones, `random` being from 0 to 1; undefined after the last. */
export function retryAfterMs(retriesMs: readonly number[], failed: number, random: number): number | undefined {
  const pause = retriesMs[failed - 1];
  return pause === undefined ? undefined : Math.round(pause * (1 + JITTER * random));
}
