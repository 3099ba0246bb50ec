import { setTimeout as sleep } from 'node:timers/promises';

const LOOKS_AT_LEAST = 20;

/**
 * Waits until `look` gives something true, and gives it. The default limit only keeps a test from hanging: it leaves room
 * for a busy machine. A test that guarantees a time measures it or gives its own limit, which a machine so busy that it looks fewer
 * than 20 times until then does not decide. The longer it has waited, the longer it pauses between looks, up to a tenth of a second:
 * looks take a share of the processors that the awaited work could use.
 */
export async function eventually<T>(what: string, look: () => Promise<T>, withinMs = 150_000): Promise<NonNullable<T>> {
  const began = performance.now();
  for (let looks = 1; ; looks++) {
    const found = await look();
    if (found) return found;
    const waitedMs = performance.now() - began;
    if (waitedMs > withinMs && looks >= LOOKS_AT_LEAST) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(Math.min(Math.max(20, waitedMs / 10), 100));
  }
}
