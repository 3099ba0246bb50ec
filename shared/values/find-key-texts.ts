import { CHECKSUM_LENGTH, fromBase62, keyShard } from './key-text.ts';

const BODY_WITH_SEPARATOR = 35;
const LONGEST_PREFIX = 32;
// No part may match in two ways, so a search takes linear time: a body holds no `_`, and so begins at each `_` at most once.
const bodies = /_\d{2}[0-9A-Za-z]{32}/g;
const prefixCharacter = /[A-Za-z0-9_]/;

// For each byte what CRC-32 (polynomial EDB88320) mixes in, and the byte whose entry begins with another one.
const forward = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
  return rest;
});
const byTopByte = new Uint8Array(256);
for (const [byte, entry] of forward.entries()) byTopByte[entry >>> 24] = byte;

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
 * The key text whose body follows the `_` at `separator`. Other letters may stand right before its prefix (`\nkey_…`), so
 * every start is tried. The checksum says where it began: computed backwards from its end, one step for each character, it
 * arrives at its first value.
 */
function keyTextAround(text: string, separator: number): string | undefined {
  const end = separator + BODY_WITH_SEPARATOR;
  const checked = end - CHECKSUM_LENGTH;
  const given = fromBase62(text.slice(checked, end), 0);
  if (given > 0xffffffff) return undefined;
  let state = ~given;
  for (let at = checked - 1; at >= separator - LONGEST_PREFIX && at >= 0; at--) {
    if (!prefixCharacter.test(text[at]!)) return undefined;
    const mixed = byTopByte[state >>> 24]!;
    state = ((state ^ forward[mixed]!) << 8) | (mixed ^ text.charCodeAt(at));
    if (state !== -1 || at >= separator) continue;
    const candidate = text.slice(at, end);
    if (keyShard(candidate) !== undefined) return candidate;
  }
  return undefined;
}
