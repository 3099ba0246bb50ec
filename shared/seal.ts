import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** A key for one purpose, derived from the master key and, where given, from a secret that only the caller holds (HKDF, RFC 5869). */
export function deriveKey(masterKey: Buffer, purpose: string, callerSecret = ''): Buffer {
  return Buffer.from(hkdfSync('sha256', Buffer.concat([masterKey, Buffer.from(callerSecret)]), '', purpose, 32));
}

/** Encrypts with AES-256-GCM; `bound` must be given again to open, so that a sealed text can't stand in another's place. */
export function seal(key: Buffer, plain: string, bound: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(bound));
  return Buffer.concat([nonce, cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()]);
}

/** Decrypts what `seal` made; throws when the key, the text or `bound` is another. */
export function unseal(key: Buffer, sealed: Uint8Array, bound: string): string {
  const bytes = Buffer.from(sealed);
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(bound)).setAuthTag(bytes.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString('utf8');
}
