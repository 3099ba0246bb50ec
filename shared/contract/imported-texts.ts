import { Type, type Static } from 'typebox';
import { ApiError } from './errors.ts';
import { object, plainText, flag } from './schema-kinds.ts';
import { bitsOf, LEAST_BITS, whyNoSecret } from '../values/guessable.ts';
import {
  FOREIGN_PATTERN,
  hashForTeam,
  hashKeyText,
  hashShard,
  isForeignText,
  keyShard,
  maskForeignText,
  maskKeyText,
} from '../values/key-text.ts';

/** The secret of a key that was made elsewhere: exactly one of its text and its hash. */
export const importedTextFields = {
  key: Type.Optional(
    Type.String({
      pattern: FOREIGN_PATTERN,
      description: 'the secret itself, 8 to 512 printable characters without blanks; it is hashed and forgotten',
      examples: ['sk-1234567890abcdef'],
    }),
  ),
  hash: Type.Optional(
    object({
      algorithm: Type.Enum(['sha256']),
      encoding: Type.Enum(['hex', 'base64'], { description: 'base64 with `+/` or `-_`, with or without `=`' }),
      value: plainText(
        64,
        'the SHA-256 of the secret',
        '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
      ),
    }),
  ),
  allowWeak: Type.Optional(
    flag('whether a text with fewer than 64 random bits, which could be guessed, is taken all the same', false),
  ),
};
type Given = Static<ReturnType<typeof object<typeof importedTextFields>>>;

/** The secret as it is stored: its hash (of a foreign text the team's own), the shard in which a verification looks for it, and what of it may be shown. */
export type ImportedText = { hash: string; home: number; maskedKey: string };

/** Reads the secret of an item; throws 400 where it is not exactly one of a text and a hash. */
export function readImportedText({ key, hash, allowWeak = false }: Given, teamId: string): ImportedText {
  if ((key === undefined) === (hash === undefined)) throw wrong('', 'must have exactly one of key and hash');
  if (key === undefined) {
    const digest = readDigest(hash!.encoding, hash!.value).toString('base64url');
    return { hash: hashForTeam(teamId, digest), home: hashShard(digest), maskedKey: '****' };
  }
  const digest = hashKeyText(key);
  const own = keyShard(key);
  // Keys of another keytally. Verify refuses one whose checksum is wrong without asking anybody.
  if (own !== undefined) return { hash: digest, home: own, maskedKey: maskKeyText(key) };
  if (!isForeignText(key)) throw wrong('/key', "has the form of keytally's keys and a wrong checksum; copy it whole");
  const why = whyNoSecret(key);
  if (why !== undefined) throw wrong('/key', why);
  if (!allowWeak && bitsOf(key) < LEAST_BITS)
    throw new ApiError('key_text_weak', { details: [{ path: '/key', message: 'could be guessed' }] });
  return { hash: hashForTeam(teamId, digest), home: hashShard(digest), maskedKey: maskForeignText(key) };
}

const forms = { hex: /^[0-9A-Fa-f]{64}$/, base64: /^[0-9A-Za-z+/_-]{43}=?$/ };

function readDigest(encoding: 'hex' | 'base64', value: string): Buffer {
  if (!forms[encoding].test(value)) throw wrong('/hash/value', `must be a SHA-256 in ${encoding}`);
  return Buffer.from(value, encoding);
}

function wrong(path: string, message: string): ApiError {
  const text = `The key cannot be imported: ${path.slice(1) || 'it'} ${message}.`;
  return new ApiError('key_text_wrong', { message: text, details: [{ path, message }] });
}
