/**
 * Whether a text came before, by its number (text-number.ts) and as far as it is remembered; from now on it did. It tells texts
 * that come again from those that come once, for caches that a stranger could fill: it keeps the numbers of texts in as many
 * places (a power of two), where a later text takes an earlier one's.
 */
export function makeSeenBefore(places: number) {
  const seen = new Int32Array(places);
  return (number: number): boolean => {
    const place = (number ^ (number >>> 16)) & (places - 1);
    if (seen[place] === number) return true;
    seen[place] = number;
    return false;
  };
}
