/** Whether a text came before, as far as it is remembered; from now on it did. */
export type SeenBefore = (text: string) => boolean;

/**
 * Tells texts that come again from those that come once, for caches that a stranger could fill: it keeps a number of four
 * bytes for each text, in as many places (a power of two), where a later text takes an earlier one's.
 */
export function makeSeenBefore(places: number): SeenBefore {
  const seen = new Int32Array(places);
  return (text) => {
    const number = hashOf(text);
    const place = (number ^ (number >>> 16)) & (places - 1);
    if (seen[place] === number) return true;
    seen[place] = number;
    return false;
  };
}

// FNV-1a over UTF-16: two texts of one number cost a place in a cache, no more.
function hashOf(text: string): number {
  let hash = 0x811c9dc5 | 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hash;
}
