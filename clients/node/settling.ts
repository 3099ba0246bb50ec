// The captures and releases of what guards held, by client.
const underWay = new WeakMap<object, Set<Promise<unknown>>>();

/** Notes a capture or release until it is done; it must not fail. */
export function noteSettling(client: object, settling: Promise<unknown>): void {
  const all = underWay.get(client) ?? new Set();
  underWay.set(client, all.add(settling));
  void settling.finally(() => all.delete(settling));
}

/** Waits until no capture or release of a client is under way. */
export async function settled(client: object): Promise<void> {
  // A server that was closed may say so before the last answer that was cut off.
  await new Promise((resolve) => setTimeout(resolve, 0));
  const all = underWay.get(client);
  while (all && all.size > 0) await Promise.all(all);
}
