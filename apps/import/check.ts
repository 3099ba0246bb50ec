import { bitsOf, LEAST_BITS, whyNoSecret } from '../../shared/values/guessable.ts';
import { FOREIGN_PATTERN, isForeignText, keyShard } from '../../shared/values/key-text.ts';
import type { Item } from './rows.ts';
import type { Result } from './send.ts';

/** Says of keys what keytally would say of their secrets, and imports none: for a dry run. */
export function checkKeys(keys: Item[]): Result[] {
  return keys.map(({ key, hash, allowWeak }) => {
    const error = key === undefined ? wrongHash(hash) : wrongText(key, allowWeak === true);
    return error ? { error } : { result: 'imported' };
  });
}

function wrongText(key: unknown, allowWeak: boolean): Result['error'] {
  if (typeof key !== 'string' || !new RegExp(FOREIGN_PATTERN).test(key))
    return { code: 40001, message: 'The key is not 8 to 512 printable characters without blanks.' };
  if (keyShard(key) !== undefined) return undefined;
  if (!isForeignText(key))
    return { code: 40030, message: "The key has the form of keytally's keys and a wrong checksum." };
  const why = whyNoSecret(key);
  if (why !== undefined) return { code: 40030, message: `The key ${why}.` };
  if (allowWeak || bitsOf(key) >= LEAST_BITS) return undefined;
  return {
    code: 40031,
    message: 'The key could be guessed: its text has fewer than 64 random bits. Replace it, or take --allow-weak.',
  };
}

const forms: Record<string, RegExp> = { hex: /^[0-9A-Fa-f]{64}$/, base64: /^[0-9A-Za-z+/_-]{43}=?$/ };

function wrongHash(hash: unknown): Result['error'] {
  const { algorithm, encoding, value } = (hash ?? {}) as Record<string, unknown>;
  if (algorithm === 'sha256' && forms[String(encoding)]?.test(String(value))) return undefined;
  return { code: 40030, message: 'The key has neither a text nor a SHA-256 in hex or base64.' };
}
