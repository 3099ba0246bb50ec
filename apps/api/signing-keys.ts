import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { calculateJwkThumbprint } from 'jose';
import { Type, type Static } from 'typebox';
import { object } from '../../shared/schemas.ts';
import { deriveKey, seal, unseal } from '../../shared/seal.ts';
import type { Query } from '../../shared/postgres.ts';

/** A public signing key (RFC 8037). */
/** The id of a signing key: its thumbprint (RFC 7638). */
export const kid = Type.String({
  description: 'id of the signing key',
  examples: ['kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'],
});

export const publicJwk = object({
  kty: Type.Literal('OKP'),
  crv: Type.Literal('Ed25519'),
  x: Type.String({
    description: 'the key itself, base64url',
    examples: ['11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo'],
  }),
  kid,
  alg: Type.Literal('EdDSA'),
  use: Type.Literal('sig'),
});
export type PublicJwk = Static<typeof publicJwk>;

export type SigningKey = { kid: string; privateKey: KeyObject };
/** One that was just made, and the kid of the one that it replaces. */
export type NewSigningKey = SigningKey & { isNew: true; replaces: string | undefined };

/** The Ed25519 keys with which a team's JWTs are signed; private ones are stored encrypted. */
export type SigningKeys = {
  /** The team's current key; the first is made when it is first asked for, so `sql` is a transaction. */
  current(sql: Query, teamId: string): Promise<SigningKey | NewSigningKey>;
  /** Makes a new current key, in a transaction; what the earlier ones signed keeps verifying. */
  rotate(sql: Query, teamId: string): Promise<NewSigningKey>;
  /** The public key of exactly this kid, if it is the team's. */
  find(sql: Query, teamId: string, kid: string): Promise<KeyObject | undefined>;
  /** Public keys as JWKs (RFC 7517), of one team or of all. */
  jwks(sql: Query, teamId?: string): Promise<PublicJwk[]>;
};

export function makeSigningKeys(masterKey: Buffer): SigningKeys {
  const sealingKey = deriveKey(masterKey, 'signing keys');
  const bound = (teamId: string, kid: string) => `${teamId} ${kid}`;

  async function stored(sql: Query, teamId: string): Promise<SigningKey | undefined> {
    const [row] = await sql<{ kid: string; privateEncrypted: Buffer }[]>`
      select kid, private_encrypted from signing_keys where team_id = ${teamId} and retired_at is null`;
    if (!row) return undefined;
    const pem = unseal(sealingKey, row.privateEncrypted, bound(teamId, row.kid));
    return { kid: row.kid, privateKey: createPrivateKey(pem) };
  }

  // The team's row is the lock: of two first uses at once, the second finds the key that the first made.
  async function lock(sql: Query, teamId: string): Promise<void> {
    await sql`select from teams where id = ${teamId} for no key update`;
  }

  async function replace(sql: Query, teamId: string): Promise<NewSigningKey> {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: publicKey.export({ format: 'jwk' }).x! } as const;
    const kid = await calculateJwkThumbprint(jwk);
    const published: PublicJwk = { ...jwk, kid, alg: 'EdDSA', use: 'sig' };
    const sealed = seal(sealingKey, privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(), bound(teamId, kid));
    const [replaced] = await sql<{ kid: string }[]>`
      update signing_keys set retired_at = now() where team_id = ${teamId} and retired_at is null returning kid`;
    await sql`
      insert into signing_keys (kid, team_id, public_jwk, private_encrypted)
      values (${kid}, ${teamId}, ${sql.json(published)}, ${sealed})`;
    return { kid, privateKey, isNew: true, replaces: replaced?.kid };
  }

  return {
    async current(sql, teamId) {
      const key = await stored(sql, teamId);
      if (key) return key;
      await lock(sql, teamId);
      return (await stored(sql, teamId)) ?? replace(sql, teamId);
    },
    async rotate(sql, teamId) {
      await lock(sql, teamId);
      return replace(sql, teamId);
    },
    async find(sql, teamId, kid) {
      const [row] = await sql<{ publicJwk: PublicJwk }[]>`
        select public_jwk from signing_keys where team_id = ${teamId} and kid = ${kid}`;
      return row && createPublicKey({ key: row.publicJwk, format: 'jwk' });
    },
    async jwks(sql, teamId) {
      const rows = await sql<{ publicJwk: PublicJwk }[]>`
        select public_jwk from signing_keys ${teamId ? sql`where team_id = ${teamId}` : sql``} order by created_at`;
      return rows.map((row) => row.publicJwk);
    },
  };
}
