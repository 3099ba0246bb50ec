import { createHash, randomFillSync } from 'node:crypto';
import { V7Generator } from 'uuidv7';

/** The kinds of ids. */
export type IdPrefix =
  | (
      | 'team'
      | 'ws'
      | 'scope'
      | 'key'
      | 'bill'
      | 'tok'
      | 'link'
      | 'evt'
      | 'ledger'
      | 'audit'
      | 'grant'
      | 'sched'
      | 'alert'
      | 'plan'
    )
  | ('hook' | 'msg' | 'dlv')
  | ('dest' | 'mev' | 'mtr')
  | ('psrc' | 'pay')
  | 'sess';

const ALPHABET = Buffer.from('0123456789abcdefghjkmnpqrstvwxyz');

/** A new TypeID (typeid specification 0.3): prefix, `_`, a UUIDv7 in Crockford base32, sortable by creation. */
export function newId(prefix: IdPrefix): string {
  return `${prefix}_${base32(generator.generate().bytes)}`;
}

/** The id of what follows from these texts: the same ones give the same id. It is not sortable. */
export function derivedId(prefix: IdPrefix, ...from: string[]): string {
  const digest = createHash('sha256').update(JSON.stringify(from)).digest();
  return `${prefix}_${base32(digest.subarray(0, 16))}`;
}

/** Whether text has the form of an id. If not, it is unknown without a query, which could fail: Postgres takes no NUL. */
export function isId(text: string): boolean {
  return /^[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(text);
}

// Random bytes for many ids at once: one call to the system's generator costs more than the rest of making an id.
const pool = new Uint32Array(1024);
let drawn = pool.length;
const generator = new V7Generator({
  nextUint32() {
    if (drawn === pool.length) {
      randomFillSync(pool);
      drawn = 0;
    }
    return pool[drawn++]!;
  },
});

// 128 bits as 26 characters of 5 bits; the first character holds only 3.
function base32(bytes: Iterable<number>): string {
  const codes: number[] = [];
  let buffer = 0;
  let bits = 2;
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      codes.push(ALPHABET[(buffer >> bits) & 31]!);
      buffer &= (1 << bits) - 1;
    }
  }
  return String.fromCharCode(...codes);
}
