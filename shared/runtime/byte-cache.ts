/** Remembers values up to so many bytes; those that were used longest ago leave first. */
export function makeByteCache<Value>(mostBytes: number) {
  // A Map keeps the order in which keys were set: the first is the one that was used longest ago.
  const kept = new Map<string, { value: Value; bytes: number }>();
  let total = 0;

  function remove(key: string): void {
    total -= kept.get(key)?.bytes ?? 0;
    kept.delete(key);
  }

  return {
    get(key: string): Value | undefined {
      const found = kept.get(key);
      if (!found) return undefined;
      kept.delete(key);
      kept.set(key, found);
      return found.value;
    },
    /** Remembers a value that takes so many bytes, its key included. One that is larger than the cache is not kept. */
    set(key: string, value: Value, bytes: number): void {
      remove(key);
      if (bytes > mostBytes) return;
      kept.set(key, { value, bytes });
      total += bytes;
      for (const oldest of kept.keys()) {
        if (total <= mostBytes) break;
        remove(oldest);
      }
    },
    /** What is remembered now. */
    bytes: () => total,
  };
}

/** At most so many bytes a text takes in memory: V8 keeps one or two for each character. */
export function bytesOfText(text: string): number {
  return 2 * text.length;
}
