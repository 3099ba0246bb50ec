// The text of a key or token (see key-text.ts), and a JWT. Bounded at the front: a search from every place of a long text
// that goes as far as it can would take a time that grows with the square of its length.
const secrets = /\w{0,32}_\d{2}[0-9A-Za-z]{32}|eyJ[\w-]{10,500}\.[\w-]+\.[\w-]+/g;

/** A client's own text as it may be repeated and logged: without keys, tokens and JWTs that slipped into the wrong place. */
export function hideSecrets(text: string): string {
  return text.replace(secrets, '[secret]');
}

/** Whether a text holds what looks like a key, a token or a JWT. */
export function holdsSecret(text: string): boolean {
  return hideSecrets(text) !== text;
}
