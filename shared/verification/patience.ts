import { invalidField } from '../contract/errors.ts';

/** How long (ms) the client of a request waits, and since when, by our monotonic clock. */
export type Patience = { ms: number; from: number };

const HEADER = 'X-Keytally-Timeout-Ms';

// The rest is for the way to us and back.
const OURS = 0.8;

/**
 * When the answer to a request began to be waited for, so that its deadline passes before its client gives up: an answer that
 * nobody waits for would be debited all the same. Who waits for less than half of the deadline is given that half, or its calls
 * would end those of others, which are decided together with them; who waits no more gets no time at all.
 */
export function waitedSince(patience: Patience | undefined, now: number, deadlineMs: number): number {
  if (!patience) return now;
  const restMs = patience.from + patience.ms * OURS - now;
  if (restMs <= 0) return now - deadlineMs;
  return now - Math.min(Math.max(0, deadlineMs - restMs), deadlineMs / 2);
}

/** Reads the header of a request that came at `from`; throws where it says no time. */
export function readPatience(given: string | undefined, from: number): Patience | undefined {
  if (given === undefined) return undefined;
  if (/^[1-9]\d{0,6}$/.test(given)) return { ms: Number(given), from };
  throw invalidField(HEADER, 'must be a whole number of milliseconds, 1 to 9999999');
}
