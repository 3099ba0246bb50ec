import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The current master key, which seals, and earlier ones, which may have sealed texts that must still open. */
export type MasterKeys = readonly [current: Buffer, ...others: Buffer[]];

export type Sealer = ReturnType<typeof makeSealer>;

/**
 * Seals texts under the current master key, and opens texts that were sealed under any of the master keys, for one purpose. With
 * a `callerSecret`, which only the caller holds, nothing opens without the caller.
 */
export function makeSealer(masterKeys: MasterKeys, purpose: string, callerSecret = '') {
  const keys = masterKeys.map((masterKey) => deriveKey(masterKey, purpose, callerSecret));
  return {
    /** `bound` names the place of the text. Opening needs it again, so no sealed text can replace another one. */
    seal: (plain: string, bound: string) => seal(keys[0]!, plain, bound),
    /** Throws if the text was changed, or was sealed under another key or with another `bound`. */
    unseal(sealed: Uint8Array, bound: string): string {
      let failure: unknown;
      for (const key of keys) {
        try {
          return unseal(key, sealed, bound);
        } catch (error) {
          failure = error;
        }
      }
      throw failure;
    },
    /** A name of the current key that reveals nothing about it. */
    keyName: deriveKey(masterKeys[0], 'name').toString('hex', 0, 8),
  };
}

/** Derives a key for one purpose from the master key and, if there is one, the caller's secret (HKDF, RFC 5869). */
export function deriveKey(masterKey: Buffer, purpose: string, callerSecret = ''): Buffer {
  return Buffer.from(hkdfSync('sha256', Buffer.concat([masterKey, Buffer.from(callerSecret)]), '', purpose, 32));
}

/** Encrypts with AES-256-GCM. */
export function seal(key: Buffer, plain: string, bound: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(bound));
  return Buffer.concat([nonce, cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()]);
}

/** Decrypts what `seal` made. Throws if the text was changed, or the key or `bound` is a different one. */
export function unseal(key: Buffer, sealed: Uint8Array, bound: string): string {
  const bytes = Buffer.from(sealed);
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(bound)).setAuthTag(bytes.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString('utf8');
}
