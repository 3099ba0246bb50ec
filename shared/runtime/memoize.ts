/** A function of a text that remembers its results. When `maxEntries` are remembered it forgets them all. */
export function memoize<T>(make: (text: string) => T, maxEntries = 10_000): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    const found = known.get(text);
    if (found !== undefined) return found;
    const made = make(text);
    if (known.size >= maxEntries) known.clear();
    known.set(text, made);
    return made;
  };
}
