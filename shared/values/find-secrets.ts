import { setImmediate as nextTurn } from 'node:timers/promises';
import { hashForTeam, hashKeyText, isForeignText, keyShard } from './key-text.ts';

const BODY_WITH_SEPARATOR = 35;
const LONGEST_PREFIX = 32;
// No part may match in two ways, so a search takes linear time: a body holds no `_`, and so begins at each `_` at most once.
const bodies = /_\d{2}[0-9A-Za-z]{32}/g;
// Runs of one class of characters each: a search takes linear time.
const words = /[!-~]+/g;
const parts = /[^\s"'`<>()[\]{},;=:&?|\\]+/g;
const wrapping = '"\'`<>()[]{},;.';
const HASHED_AT_ONCE = 500;

/**
 * The different key texts in a text: secrets of API keys, access tokens and link tokens whose checksum is right, in the order
 * in which they come, also where `_` is written as `%5F`. Gives up after `atMost`.
 */
export function findKeyTexts(text: string, atMost = Infinity): string[] {
  const readable = text.replace(/%5f/gi, '_');
  const found = new Set<string>();
  for (const { index } of readable.matchAll(bodies)) {
    const keyText = keyTextAround(readable, index);
    if (keyText !== undefined) found.add(keyText);
    if (found.size >= atMost) break;
  }
  return [...found];
}

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

/** The key text whose body follows the `_` at `separator`. Other letters may stand right before its prefix (`\nkey_…`): the checksum says where it began. */
function keyTextAround(text: string, separator: number): string | undefined {
  const earliest = Math.max(0, separator - LONGEST_PREFIX);
  for (let start = separator - 1; start >= earliest && /\w/.test(text[start]!); start--) {
    const candidate = text.slice(start, separator + BODY_WITH_SEPARATOR);
    if (keyShard(candidate) !== undefined) return candidate;
  }
  return undefined;
}

function unwrapped(word: string): string {
  let [start, end] = [0, word.length];
  while (start < end && wrapping.includes(word[start]!)) start += 1;
  while (end > start && wrapping.includes(word[end - 1]!)) end -= 1;
  return word.slice(start, end);
}
