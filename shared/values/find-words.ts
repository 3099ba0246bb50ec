import { setImmediate as nextTurn } from 'node:timers/promises';
import { hashForTeam, hashKeyText, isForeignText } from './key-text.ts';

// Runs of one class of characters each: a search takes linear time.
const words = /[!-~]+/g;
const parts = /[^\s"'`<>()[\]{},;=:&?|\\]+/g;
const wrapping = '"\'`<>()[]{},;.';
const HASHED_AT_ONCE = 500;

/**
 * What may be the secret of a team's imported key in a text, by its hash: such a secret has no form of its own, so it is whatever
 * stands between blanks, or between blanks, quotes and other delimiters. Hashes some at a time, between other work.
 */
export async function findForeignTexts(text: string, teamId: string): Promise<Map<string, string>> {
  const candidates = new Set<string>();
  for (const pattern of [words, parts]) {
    for (const [word] of text.matchAll(pattern)) {
      for (const candidate of [word, unwrapped(word)]) if (isForeignText(candidate)) candidates.add(candidate);
    }
  }
  const found = new Map<string, string>();
  for (const candidate of candidates) {
    found.set(hashForTeam(teamId, hashKeyText(candidate)), candidate);
    if (found.size % HASHED_AT_ONCE === 0) await nextTurn();
  }
  return found;
}

function unwrapped(word: string): string {
  let [start, end] = [0, word.length];
  while (start < end && wrapping.includes(word[start]!)) start += 1;
  while (end > start && wrapping.includes(word[end - 1]!)) end -= 1;
  return word.slice(start, end);
}
