// A key, a token (both: see key-text.ts) or a JWT. The parts that come first are bounded: unbounded, a search that starts
// at every character of a long text would take quadratic time.
const secrets = /\w{0,32}_\d{2}[0-9A-Za-z]{32}|eyJ[\w-]{10,500}\.[\w-]+\.[\w-]+/g;

/** Makes a client's text safe to return and log: replaces keys, tokens and JWTs that it holds by mistake. */
export function hideSecrets(text: string): string {
  return text.replace(secrets, '[secret]');
}

/** Whether a text holds what looks like a key, a token or a JWT. */
export function holdsSecret(text: string): boolean {
  return hideSecrets(text) !== text;
}
