import { decodeUnreserved } from './percent.ts';

const HIDDEN = '[secret]';

/**
 * Makes a client's text safe to return, log and record: replaces keys, tokens and JWTs that it holds by mistake. Where one
 * is percent-encoded, the text comes back decoded as far as that shows it.
 */
export function hideSecrets(text: string): string {
  const hidden = hidePlain(text);
  if (!hidden.includes('%')) return hidden;
  const decoded = decodeUnreserved(hidden);
  const hiddenBelow = hidePlain(decoded);
  return hiddenBelow === decoded ? hidden : hiddenBelow;
}

/** Whether a text holds what looks like a key, a token or a JWT. */
export function holdsSecret(text: string): boolean {
  return hideSecrets(text) !== text;
}

function hidePlain(text: string): string {
  return text.includes('_') || text.includes('eyJ') ? hideJwts(hideKeys(text)) : text;
}

// The body of a key or of a token (key-text.ts), with the `_` before it. A body holds no `_`, so no two attempts to match
// share a character. The prefix is looked for backwards: a pattern that began with it would begin at every character.
const body = /_\d{2}[0-9A-Za-z]{32}/g;
const BODY_LENGTH = 35;
const LONGEST_PREFIX = 32;

function hideKeys(text: string): string {
  let safe = '';
  let end = 0;
  for (const { index } of text.matchAll(body)) {
    const earliest = Math.max(end, index - LONGEST_PREFIX);
    let start = index;
    while (start > earliest && isWordCharacter(text.charCodeAt(start - 1))) start -= 1;
    safe += text.slice(end, start) + HIDDEN;
    end = index + BODY_LENGTH;
  }
  return safe + text.slice(end);
}

function isWordCharacter(code: number): boolean {
  return (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122) || code === 95;
}

// A JWT; or else the whole word that begins like one, so that no further attempt begins inside of it.
const jwt = /eyJ[\w-]{10,}\.[\w-]+\.[\w-]+|eyJ[\w-]*/g;

function hideJwts(text: string): string {
  return text.replace(jwt, (found) => (found.includes('.') ? HIDDEN : found));
}
