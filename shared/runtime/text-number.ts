import { randomBytes } from 'node:crypto';

// Different in each process, so that nobody knows which texts have one number.
const BASIS = randomBytes(4).readInt32LE();

/**
 * A number of 32 bits for a text (FNV-1a over UTF-16), to look it up by where strangers choose it. V8 makes a text by which
 * a `Map` is asked an internal one, and keeps it among its old objects, found or not, until it collects all of them. Two
 * texts may have one number: compare them.
 */
export function numberOfText(text: string): number {
  let number = BASIS;
  for (let i = 0; i < text.length; i++) number = Math.imul(number ^ text.charCodeAt(i), 0x01000193);
  return number;
}
