import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The master key under which texts are sealed, and those under which they may have been sealed before. */
export type MasterKeys = readonly [current: Buffer, ...others: Buffer[]];

/** Seals texts under the current master key and opens those that were sealed under any. */
export type Sealer = {
  /** `bound` must be given again to open, so that a sealed text can't stand in another's place. */
  seal(plain: string, bound: string): Buffer;
  /** Throws when the keys, the text or `bound` are others. */
  unseal(sealed: Uint8Array, bound: string): string;
  /** Names the current key, and tells nothing of it. */
  keyName: string;
};

/** A sealer for one purpose; `callerSecret` is what only the caller holds, without whom nothing opens then. */
export function makeSealer(masterKeys: MasterKeys, purpose: string, callerSecret = ''): Sealer {
  const keys = masterKeys.map((masterKey) => deriveKey(masterKey, purpose, callerSecret));
  return {
    seal: (plain, bound) => seal(keys[0]!, plain, bound),
    unseal(sealed, bound) {
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
    keyName: deriveKey(masterKeys[0], 'name').toString('hex', 0, 8),
  };
}

/** A key for one purpose, derived from the master key and, where given, from a secret that only the caller holds (HKDF, RFC 5869). */
export function deriveKey(masterKey: Buffer, purpose: string, callerSecret = ''): Buffer {
  return Buffer.from(hkdfSync('sha256', Buffer.concat([masterKey, Buffer.from(callerSecret)]), '', purpose, 32));
}

/** Encrypts with AES-256-GCM. */
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
