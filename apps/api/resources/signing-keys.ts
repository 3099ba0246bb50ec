import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { calculateJwkThumbprint } from 'jose';
import { Type, type Static } from 'typebox';
import { object } from '../../../shared/contract/schema-kinds.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import type { Query, Sql } from '../../../shared/stores/postgres.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import { makeSealer, type MasterKeys } from '../../../shared/values/seal.ts';

/** The id of a signing key: its thumbprint (RFC 7638). */
export const kid = Type.String({
  description: 'id of the signing key',
  examples: ['kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k'],
});

/** A public signing key (RFC 8037). */
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
  /**
   * The team's current key, for a JWT that lives so long; the first is made when it is first asked for, so `sql` is a
   * transaction.
   */
  current(sql: Query, teamId: string, lifetimeSeconds: number): Promise<SigningKey | NewSigningKey>;
  /** Makes a new current key, in a transaction; what the earlier ones signed keeps verifying. */
  rotate(sql: Query, teamId: string): Promise<NewSigningKey>;
  /** The public key of exactly this kid, if it is the team's. */
  find(sql: Query, teamId: string, kid: string): Promise<KeyObject | undefined>;
  /** Public keys as JWKs (RFC 7517), of one team or of all: those of which a JWT may be in force. */
  jwks(sql: Query, teamId?: string): Promise<PublicJwk[]>;
};

// A JWT may be signed a moment after its key was retired, by a request that had begun before.
const SIGNED_LATE_SECONDS = 300;
const SEAL_EVERY_MS = 600_000;

export function makeSigningKeys(masterKeys: MasterKeys): SigningKeys {
  const sealer = makeSealer(masterKeys, PURPOSE);

  async function stored(sql: Query, teamId: string): Promise<(SigningKey & { longestSeconds: number }) | undefined> {
    const [row] = await sql<{ kid: string; privateEncrypted: Buffer; longestSeconds: number }[]>`
      select kid, private_encrypted, longest_seconds from signing_keys where team_id = ${teamId} and retired_at is null`;
    if (!row) return undefined;
    const pem = sealer.unseal(row.privateEncrypted, bound(teamId, row.kid));
    return { kid: row.kid, privateKey: createPrivateKey(pem), longestSeconds: row.longestSeconds };
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
    const sealed = sealer.seal(privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(), bound(teamId, kid));
    const [replaced] = await sql<{ kid: string }[]>`
      update signing_keys set retired_at = now(), private_encrypted = null, sealed_under = null
      where team_id = ${teamId} and retired_at is null returning kid`;
    await sql`
      insert into signing_keys (kid, team_id, public_jwk, private_encrypted, sealed_under)
      values (${kid}, ${teamId}, ${sql.json(published)}, ${sealed}, ${sealer.keyName})`;
    return { kid, privateKey, isNew: true, replaces: replaced?.kid };
  }

  return {
    async current(sql, teamId, lifetimeSeconds) {
      let key: (SigningKey & { longestSeconds?: number }) | undefined = await stored(sql, teamId);
      if (!key) {
        await lock(sql, teamId);
        key = (await stored(sql, teamId)) ?? (await replace(sql, teamId));
      }
      // Seldom: only what is to live longer than all before it is written down.
      if (lifetimeSeconds > (key.longestSeconds ?? 0))
        await sql`
          update signing_keys set longest_seconds = greatest(longest_seconds, ${lifetimeSeconds}) where kid = ${key.kid}`;
      return key;
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
        select public_jwk from signing_keys
        where (retired_at is null or retired_at + make_interval(secs => longest_seconds + ${SIGNED_LATE_SECONDS}) > now())
          ${teamId ? sql`and team_id = ${teamId}` : sql``}
        order by created_at`;
      return rows.map((row) => row.publicJwk);
    },
  };
}

/**
 * Brings signing keys that were encrypted under another master key under the current one, now and every ten minutes: so
 * also one that a program made that did not have it yet. One that opens under none of them is told as an error.
 */
export function keepSealed(sql: Sql, masterKeys: MasterKeys, log: Logger): Loop {
  const sealer = makeSealer(masterKeys, PURPOSE);
  return startLoop(SEAL_EVERY_MS, log, 'encrypting signing keys anew', async () => {
    const rows = await sql<{ kid: string; teamId: string; privateEncrypted: Buffer }[]>`
      select kid, team_id, private_encrypted from signing_keys where sealed_under <> ${sealer.keyName}`;
    let sealed = 0;
    for (const { kid, teamId, privateEncrypted } of rows) {
      let pem: string;
      try {
        pem = sealer.unseal(privateEncrypted, bound(teamId, kid));
      } catch {
        log.error({ kid }, 'a signing key opens neither under MASTER_KEY nor under MASTER_KEY_PREVIOUS');
        continue;
      }
      // Unless it was changed meanwhile.
      const { count } = await sql`
        update signing_keys
        set private_encrypted = ${sealer.seal(pem, bound(teamId, kid))}, sealed_under = ${sealer.keyName}
        where kid = ${kid} and private_encrypted = ${privateEncrypted}`;
      sealed += count;
    }
    if (sealed > 0) log.info({ keys: sealed }, 'signing keys were encrypted under the current master key');
  });
}

const PURPOSE = 'signing keys';
const bound = (teamId: string, kid: string) => `${teamId} ${kid}`;
