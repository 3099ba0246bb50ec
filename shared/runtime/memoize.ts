import { makeSeenBefore } from './seen-before.ts';
import { numberOfText } from './text-number.ts';

// Whoever sends the texts also chooses how long they are.
const LONGEST = 4_096;
const MOST_CHARACTERS = 4_000_000;
const PLACES = 65_536;

/**
 * A function of a text that remembers its results. When `maxEntries` or four million characters are remembered it forgets
 * them all; from a quarter of that on, it only remembers what is asked for again. It does not remember what it made of a text of
 * more than 4,096 characters.
 */
export function memoize<T>(make: (text: string) => T, maxEntries = 10_000): (text: string) => T {
  const known = new Map<number, { text: string; made: T }>();
  const seenBefore = makeSeenBefore(PLACES);
  let characters = 0;
  return (text) => {
    if (text.length > LONGEST) return make(text);
    const number = numberOfText(text);
    const found = known.get(number);
    if (found?.text === text) return found.made;
    const hasRoom = known.size < maxEntries / 4 && characters < MOST_CHARACTERS / 4;
    if (!hasRoom && !seenBefore(number)) return make(text);
    const own = copyOf(text);
    // A copy differs where the text has half a surrogate pair.
    if (own !== text) return make(text);
    const made = make(own);
    if (known.size >= maxEntries || characters + own.length > MOST_CHARACTERS) {
      known.clear();
      characters = 0;
    }
    // Where another text has this number, it is forgotten; its characters count until all are.
    known.set(number, { text: own, made });
    characters += own.length;
    return made;
  };
}

// A text that was cut from a longer one, such as a part of a header, keeps all of that one in memory, and so does what is
// made of it. The copy does not.
function copyOf(text: string): string {
  return Buffer.from(text).toString();
}
