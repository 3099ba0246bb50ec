import { createHash, hash, randomBytes, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

// A key text is the secret of an API key, an access token or a link token: they all have this form.

/** The number of virtual shards; each is one hash tag `{NN}` in Redis. */
export const SHARDS = 64;
export const ALL_SHARDS: readonly number[] = Array.from({ length: SHARDS }, (_, shard) => shard);
export const PREFIX_PATTERN = '^[A-Za-z][A-Za-z0-9_]{0,31}$';

const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
// The base62 digit of each character code.
const DIGITS: number[] = [];
for (let digit = 0; digit < 62; digit++) DIGITS[BASE62.charCodeAt(digit)] = digit;
const RANDOM_LENGTH = 26;
// How many characters at the end of a key text are its checksum.
const CHECKSUM_LENGTH = 6;
const BODY_LENGTH = 2 + RANDOM_LENGTH + CHECKSUM_LENGTH;
const keyPattern = /^[A-Za-z][A-Za-z0-9_]{0,31}_[0-9]{2}[0-9A-Za-z]{32}$/;

/**
 * A new key text: `<prefix>_<body>`. The body is 2 characters of shard, 26 random base62 characters (154 bits) and 6
 * characters of base62 CRC-32 of everything before them, so that a mistyped key is detected without any I/O.
 */
export function makeKeyText(prefix: string, shard: number): string {
  const text = `${prefix}_${shardText(shard)}${randomBase62(RANDOM_LENGTH)}`;
  return text + checksum(text);
}

/** The shard of a key text; `undefined` for other text: its form, shard or checksum is wrong. */
export function keyShard(text: string): number | undefined {
  if (!keyPattern.test(text)) return undefined;
  const at = text.length - BODY_LENGTH;
  const shard = Number(text.slice(at, at + 2));
  const checked = text.length - CHECKSUM_LENGTH;
  return shard < SHARDS && crc32(text.slice(0, checked)) === fromBase62(text, checked) ? shard : undefined;
}

/** The form of keys that were made elsewhere: printable characters, without blanks. */
export const FOREIGN_PATTERN = '^[!-~]{8,512}$';
const foreignPattern = new RegExp(FOREIGN_PATTERN);

/** Whether a text may be a key that was made elsewhere. One of our form is not: its checksum says that it was mistyped. */
export function isForeignText(text: string): boolean {
  return foreignPattern.test(text) && !keyPattern.test(text);
}

/** The shard in which a key that was made elsewhere is looked for, from its hash: six of its bits. */
export function hashShard(hash: string): number {
  return BASE64URL.indexOf(hash[0]!) % SHARDS;
}

/**
 * The name under which a key that was made elsewhere is kept for a team, from its hash: two teams may have the same text, and neither
 * learns of the other's.
 */
export function hashForTeam(teamId: string, textHash: string): string {
  return hash('sha256', `${teamId}:${textHash}`, 'base64url');
}

/** Where the record of a key is looked for, by the text that a team presents: its first shard, and its name there. */
export type PlaceOfKey = { home: number; hash: string; isForeign: boolean };

/** The place of a key text; `undefined` for one that no key has. */
export function placeOfKey(text: string, teamId: string): PlaceOfKey | undefined {
  const shard = keyShard(text);
  if (shard === undefined && !isForeignText(text)) return undefined;
  const textHash = hashKeyText(text);
  return shard === undefined
    ? { home: hashShard(textHash), hash: hashForTeam(teamId, textHash), isForeign: true }
    : { home: shard, hash: textHash, isForeign: false };
}

/** The part of a foreign key that may be shown: of a short one little, because the rest could be guessed. */
export function maskForeignText(text: string): string {
  return (text.length < 24 ? '' : text.slice(0, 4)) + '****' + (text.length < 16 ? '' : text.slice(-4));
}

/** SHA-256 of a key text in base64url: the only form in which one is stored. Over 150 random bits need no salt. */
export function hashKeyText(text: string): string {
  return hash('sha256', text, 'base64url');
}

/** The part of a key text that may be shown: prefix, `_`, the body's first 4 characters, `****`, its last 4. */
export function maskKeyText(text: string): string {
  const bodyStart = text.lastIndexOf('_') + 1;
  return `${text.slice(0, bodyStart + 4)}****${text.slice(-4)}`;
}

/** The shard of records that must share one Redis slot, from the name that they have in common. */
export function shardOf(name: string): number {
  return createHash('sha256').update(name).digest().readUInt32BE(0) % SHARDS;
}

/** A shard for a record that shares its slot with no other. */
export function randomShard(): number {
  return randomInt(SHARDS);
}

/** A shard as its two characters in a key text and in a hash tag. */
export function shardText(shard: number): string {
  return String(shard).padStart(2, '0');
}

// Bytes from 248 up are dropped: 248 is the largest multiple of 62 below 256, so each character is equally likely.
function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(2 * length)) {
      if (byte < 248 && text.length < length) text += BASE62[byte % 62];
    }
  }
  return text;
}

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = BASE62[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

function fromBase62(text: string, start: number): number {
  let value = 0;
  for (let at = start; at < text.length; at++) value = value * 62 + DIGITS[text.charCodeAt(at)]!;
  return value;
}
