import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Waits until `look` gives something true, and gives it. The default limit only keeps a test from hanging: it leaves room
 * for a busy machine. A test that guarantees a time measures it or gives its own limit.
 */
export async function eventually<T>(what: string, look: () => Promise<T>, withinMs = 60_000): Promise<NonNullable<T>> {
  const until = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (performance.now() > until) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(20);
  }
}
