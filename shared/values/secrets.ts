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
  const safe = body.test(text) ? text.replace(keyTexts, HIDDEN) : text;
  return safe.includes('eyJ') ? hideJwts(safe) : safe;
}

// The body of a key or of a token (key-text.ts), with the `_` before it, and where there is one, what may be its prefix: a pattern
// that begins with it is tried at every character.
const body = /_\d{2}[0-9A-Za-z]{32}/;
const keyTexts = new RegExp(`\\w{0,32}${body.source}`, 'g');

// A JWT; or else the whole word that begins like one, so that no further attempt begins inside of it.
const jwt = /eyJ[\w-]{10,}\.[\w-]+\.[\w-]+|eyJ[\w-]*/g;

function hideJwts(text: string): string {
  return text.replace(jwt, (found) => (found.includes('.') ? HIDDEN : found));
}
