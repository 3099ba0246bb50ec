const LONGEST_MS = 60_000;

/**
 * Gives `act` an instant some ms ahead before which it must be done, and does it anew with a later one when it was not: a busy
 * machine makes a test wait, not fail. So `act` makes new whatever a late attempt spoilt. What it throws after its instant is
 * not told, unless a minute did not suffice.
 */
export async function inTime<T>(ms: number, act: (until: number) => Promise<T>): Promise<T> {
  for (let given = ms; ; given *= 2) {
    const until = Date.now() + given;
    try {
      const done = await act(until);
      if (Date.now() < until) return done;
    } catch (error) {
      if (Date.now() < until || given > LONGEST_MS) throw error;
    }
  }
}

/** The whole seconds until an instant, as a request names them. */
export function secondsUntil(until: number): number {
  return Math.ceil((until - Date.now()) / 1_000);
}
