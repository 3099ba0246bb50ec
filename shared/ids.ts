import { UUID, uuidv7obj } from 'uuidv7';

export type IdPrefix = 'team' | 'ws' | 'scope' | 'key' | 'bill' | 'tok' | 'link' | 'evt' | 'ledger';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** A new TypeID (typeid specification 0.3): prefix, `_`, a UUIDv7 in Crockford base32, sortable by creation. */
export function newId(prefix: IdPrefix): string {
  return `${prefix}_${base32(uuidv7obj())}`;
}

// 128 bits as 26 characters of 5 bits, the first of them holding only 3.
function base32(uuid: UUID): string {
  let text = '';
  let buffer = 0;
  let bits = 2;
  for (const byte of uuid.bytes) {
    buffer = (buffer << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(buffer >> bits) & 31];
      buffer &= (1 << bits) - 1;
    }
  }
  return text;
}
