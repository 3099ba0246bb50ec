import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { calculateJwkThumbprint } from 'jose';
import { Type, type Static } from 'typebox';
import { object } from '../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import { makeSealer, type MasterKeys, type Sealer } from '../../../shared/values/seal.ts';

/** The id of a signing key: its thumbprint (RFC 7638). */
export const kid = Type.String({
  maxLength: 43,
  description: 'id of the signing key',
  examples: ['kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'],
});

/** A public signing key (RFC 8037). */
export const publicJwk = object({
  kty: Type.Literal('OKP'),
  crv: Type.Literal('Ed25519'),
  x: Type.String({
    maxLength: 43,
    description: 'the key itself, base64url',
    examples: ['11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo'],
  }),
  kid,
  alg: Type.Literal('EdDSA'),
  use: Type.Literal('sig'),
});
export type PublicJwk = Static<typeof publicJwk>;

export type SigningKey = { kid: string; privateKey: KeyObject };
/** A key that was just made, and the kid of the key that it replaces. */
export type NewSigningKey = SigningKey & { isNew: true; replaces: string | undefined };

/** The Ed25519 keys that sign a team's JWTs; private keys are stored encrypted. */
export type SigningKeys = {
  /** The team's current key, for a JWT of this lifetime. The first call makes the first key, so `sql` is a transaction. */
  current(sql: Query, teamId: string, lifetimeSeconds: number): Promise<SigningKey | NewSigningKey>;
  /** Makes a new current key, in a transaction. JWTs that earlier keys signed keep verifying. */
  rotate(sql: Query, teamId: string): Promise<NewSigningKey>;
  /** The public key of exactly this kid, if it is the team's. */
  find(sql: Query, teamId: string, kid: string): Promise<KeyObject | undefined>;
  /** Public keys as JWKs (RFC 7517), of one team or of all teams: every key whose JWTs may still be in force. */
  jwks(sql: Query, teamId?: string): Promise<PublicJwk[]>;
};

// A request that began before its key was retired may sign a JWT a moment after.
const SIGNED_LATE_SECONDS = 300;

export function makeSigningKeys(masterKeys: MasterKeys): SigningKeys {
  const sealer = signingKeySealer(masterKeys);
  return {
    async current(sql, teamId, lifetimeSeconds) {
      let key: (SigningKey & { longestSeconds?: number }) | undefined = await readCurrent(sql, sealer, teamId);
      if (!key) {
        await lockTeam(sql, teamId);
        key = (await readCurrent(sql, sealer, teamId)) ?? (await replaceCurrent(sql, sealer, teamId));
      }
      // Rarely: only a lifetime longer than all before it is written down.
      if (lifetimeSeconds > (key.longestSeconds ?? 0))
        await sql`
          update signing_keys set longest_seconds = greatest(longest_seconds, ${lifetimeSeconds}) where kid = ${key.kid}`;
      return key;
    },
    async rotate(sql, teamId) {
      await lockTeam(sql, teamId);
      return replaceCurrent(sql, sealer, teamId);
    },
    async find(sql, teamId, kid) {
      const [row] = await sql<{ publicJwk: PublicJwk }[]>`
        select public_jwk from signing_keys where team_id = ${teamId} and kid = ${kid}`;
      return row && createPublicKey({ key: row.publicJwk, format: 'jwk' });
    },
    async jwks(sql, teamId) {
      const rows = await sql<{ publicJwk: PublicJwk }[]>`
        select public_jwk from signing_keys
        where (retired_at is null or retired_at + make_interval(secs => longest_seconds + ${SIGNED_LATE_SECONDS}) > now())
          ${teamId ? sql`and team_id = ${teamId}` : sql``}
        order by created_at`;
      return rows.map((row) => row.publicJwk);
    },
  };
}

/** Encrypts private keys. */
export function signingKeySealer(masterKeys: MasterKeys): Sealer {
  return makeSealer(masterKeys, 'signing keys');
}

/** What an encrypted private key is bound to: it opens for no other team and under no other kid. */
export function sealedFor(teamId: string, kid: string): string {
  return `${teamId} ${kid}`;
}

type StoredKey = SigningKey & { longestSeconds: number };

async function readCurrent(sql: Query, sealer: Sealer, teamId: string): Promise<StoredKey | undefined> {
  const [row] = await sql<{ kid: string; privateEncrypted: Buffer; longestSeconds: number }[]>`
    select kid, private_encrypted, longest_seconds from signing_keys where team_id = ${teamId} and retired_at is null`;
  if (!row) return undefined;
  const pem = sealer.unseal(row.privateEncrypted, sealedFor(teamId, row.kid));
  return { kid: row.kid, privateKey: createPrivateKey(pem), longestSeconds: row.longestSeconds };
}

// The team's row is the lock: of two requests that need the first key at once, the second finds the key of the first.
async function lockTeam(sql: Query, teamId: string): Promise<void> {
  await sql`select from teams where id = ${teamId} for no key update`;
}

async function replaceCurrent(sql: Query, sealer: Sealer, teamId: string): Promise<NewSigningKey> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: publicKey.export({ format: 'jwk' }).x! } as const;
  const kid = await calculateJwkThumbprint(jwk);
  const published: PublicJwk = { ...jwk, kid, alg: 'EdDSA', use: 'sig' };
  const sealed = sealer.seal(privateKey.export({ format: 'pem', type: 'pkcs8' }), sealedFor(teamId, kid));
  const [replaced] = await sql<{ kid: string }[]>`
    update signing_keys set retired_at = now(), private_encrypted = null, sealed_under = null
    where team_id = ${teamId} and retired_at is null returning kid`;
  await sql`
    insert into signing_keys (kid, team_id, public_jwk, private_encrypted, sealed_under)
    values (${kid}, ${teamId}, ${sql.json(published)}, ${sealed}, ${sealer.keyName})`;
  return { kid, privateKey, isNew: true, replaces: replaced?.kid };
}
