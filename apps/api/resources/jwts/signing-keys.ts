import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { calculateJwkThumbprint } from 'jose';
import { Type, type Static } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { named, object, plainText } from '../../../../shared/contract/schema-kinds.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { makeSealer, type MasterKeys, type Sealer } from '../../../../shared/values/seal.ts';

/** The id of a signing key: its thumbprint (RFC 7638). */
export const kid = plainText(43, 'id of the signing key', 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k');

/** A public signing key (RFC 8037). */
export const publicJwk = named(
  'PublicJwk',
  object({
    kty: Type.Literal('OKP'),
    crv: Type.Literal('Ed25519'),
    x: plainText(43, 'the key itself, base64url', '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo'),
    kid,
    alg: Type.Literal('EdDSA'),
    use: Type.Literal('sig'),
  }),
);
export type PublicJwk = Static<typeof publicJwk>;

/** Most keys of a team in its key set: the current, the next, and earlier ones whose JWTs may be in force. */
export const MAX_PUBLISHED_KEYS = 100;

export type SigningKey = { kid: string; privateKey: KeyObject; issuer: JwtSettings['issuer'] };
/** A key that signs from now on, and the kid of the key that it replaces. */
export type NewSigningKey = SigningKey & { isNew: true; replaces: string | undefined };

/**
 * The Ed25519 keys that sign a team's JWTs; private keys are stored encrypted. A team has two: the current key, and the next
 * one, which key sets contain already, so that caches know it when a rotation makes it the current key.
 */
export type SigningKeys = ReturnType<typeof makeSigningKeys>;

export function makeSigningKeys(masterKeys: MasterKeys) {
  const sealer = signingKeySealer(masterKeys);
  return {
    /** The team's current key, for a JWT of this lifetime. The first call makes the first keys, so `sql` is a transaction. */
    async current(sql: Query, teamId: string, lifetimeSeconds: number): Promise<SigningKey | NewSigningKey> {
      const seen = await readCurrent(sql, sealer, teamId);
      if (seen?.hasNext && (await signsFor(sql, seen, lifetimeSeconds))) return seen;
      // The team's row is the lock: of two requests that need the first keys at once, the second finds those of the first.
      await readJwtSettings(sql, teamId, { lock: true });
      const found = await readCurrent(sql, sealer, teamId);
      if (found && !found.hasNext) await makeKey(sql, sealer, teamId, 'next');
      const key = found ?? (await replaceCurrent(sql, sealer, teamId));
      // Nobody retires it while the team is locked.
      await signsFor(sql, key, lifetimeSeconds);
      return key;
    },
    /**
     * Makes the next key the current one, in a transaction. JWTs that earlier keys signed keep verifying, unless `retireNow`
     * ends all earlier keys; `retired` has their kids.
     */
    async rotate(sql: Query, teamId: string, { retireNow }: { retireNow: boolean }) {
      await readJwtSettings(sql, teamId, { lock: true });
      const retired = retireNow ? await retireAll(sql, teamId) : [];
      const made = await replaceCurrent(sql, sealer, teamId);
      await requireFewKeys(sql, teamId);
      return { ...made, retired };
    },
  };
}

/**
 * Ends all signing keys of a team at once, in a transaction, and gives their kids: they leave the key sets, JWTs that they
 * signed are INVALID. So the team's list of revoked JWTs is empty again. The team's next JWT makes new keys. Called twice, it
 * finds nothing.
 */
export async function retireAll(sql: Query, teamId: string): Promise<string[]> {
  await readJwtSettings(sql, teamId, { lock: true });
  const ended = await sql<{ kid: string }[]>`
    update signing_keys set retired_at = now(), revoked_at = now(), private_encrypted = null, sealed_under = null
    where team_id = ${teamId} and published_until > now()
    returning kid`;
  await sql`delete from revoked_jwts where team_id = ${teamId}`;
  return ended.map((row) => row.kid);
}

/** Encrypts private keys. */
export function signingKeySealer(masterKeys: MasterKeys): Sealer {
  return makeSealer(masterKeys, 'signing keys');
}

/** What an encrypted private key is bound to: it opens for no other team and under no other kid. */
export function sealedFor(teamId: string, kid: string): string {
  return `${teamId} ${kid}`;
}

/** A public key as the crypto library takes it. */
export function publicKeyOf(jwk: PublicJwk): KeyObject {
  return createPublicKey({ key: jwk, format: 'jwk' });
}

type StoredKey = SigningKey & { longestSeconds: number; hasNext: boolean };

async function readCurrent(sql: Query, sealer: Sealer, teamId: string): Promise<StoredKey | undefined> {
  const [row] = await sql<(Omit<StoredKey, 'privateKey'> & { privateEncrypted: Buffer })[]>`
    select k.kid, k.private_encrypted, k.longest_seconds, t.jwt_issuer as issuer,
           exists (select from signing_keys n where n.team_id = k.team_id and n.retired_at = 'infinity') as has_next
    from signing_keys k join teams t on t.id = k.team_id
    where k.team_id = ${teamId} and k.retired_at is null`;
  if (!row) return undefined;
  const { privateEncrypted, ...key } = row;
  return { ...key, privateKey: createPrivateKey(sealer.unseal(privateEncrypted, sealedFor(teamId, key.kid))) };
}

/**
 * Notes the longest lifetime of a key's JWTs, rarely more than a comparison. Gives whether the key may sign: it may not if it
 * was revoked meanwhile.
 */
async function signsFor(sql: Query, key: SigningKey & { longestSeconds?: number }, seconds: number): Promise<boolean> {
  if (seconds <= (key.longestSeconds ?? 0)) return true;
  const { count } = await sql`
    update signing_keys set longest_seconds = greatest(longest_seconds, ${seconds})
    where kid = ${key.kid} and revoked_at is null`;
  return count > 0;
}

async function replaceCurrent(sql: Query, sealer: Sealer, teamId: string): Promise<NewSigningKey> {
  const [replaced] = await sql<{ kid: string }[]>`
    update signing_keys set retired_at = now(), private_encrypted = null, sealed_under = null
    where team_id = ${teamId} and retired_at is null returning kid`;
  const promoted = await sql`
    update signing_keys set retired_at = null where team_id = ${teamId} and retired_at = 'infinity'`;
  if (promoted.count === 0) await makeKey(sql, sealer, teamId, 'current');
  await makeKey(sql, sealer, teamId, 'next');
  const current = (await readCurrent(sql, sealer, teamId))!;
  return { ...current, isNew: true, replaces: replaced?.kid };
}

async function makeKey(sql: Query, sealer: Sealer, teamId: string, which: 'current' | 'next') {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: publicKey.export({ format: 'jwk' }).x! } as const;
  const kid = await calculateJwkThumbprint(jwk);
  const published: PublicJwk = { ...jwk, kid, alg: 'EdDSA', use: 'sig' };
  const sealed = sealer.seal(privateKey.export({ format: 'pem', type: 'pkcs8' }), sealedFor(teamId, kid));
  await sql`
    insert into signing_keys (kid, team_id, public_jwk, private_encrypted, sealed_under, retired_at)
    values (${kid}, ${teamId}, ${sql.json(published)}, ${sealed}, ${sealer.keyName},
            ${which === 'next' ? sql`'infinity'` : null})`;
}

async function requireFewKeys(sql: Query, teamId: string): Promise<void> {
  const published = await sql`
    select from signing_keys where team_id = ${teamId} and published_until > now() limit ${MAX_PUBLISHED_KEYS + 1}`;
  if (published.length > MAX_PUBLISHED_KEYS) throw new ApiError('signing_key_limit_reached');
}

export const ISSUERS = ['TEAM_ID', 'URL'] as const;
export type JwtSettings = { sharedKeySet: boolean; issuer: (typeof ISSUERS)[number] };

/** Reads a team's settings. `lock` locks its row: its signing keys and revocations change one after the other. */
export async function readJwtSettings(sql: Query, teamId: string, { lock = false } = {}): Promise<JwtSettings> {
  const [row] = await sql<[JwtSettings]>`
    select shares_signing_keys as shared_key_set, jwt_issuer as issuer from teams where id = ${teamId}
    ${lock ? sql`for no key update` : sql``}`;
  return row;
}

/** The `iss` of a team's new JWTs. Throws where it is to be a URL and the operator has not said which. */
export function issuerOf(teamId: string, issuer: JwtSettings['issuer'], publicUrl: string): string {
  if (issuer === 'TEAM_ID') return teamId;
  if (!URL.canParse(publicUrl)) throw new ApiError('issuer_url_unknown');
  return teamUrl(teamId, publicUrl);
}

/** Whether a text is one of the issuers that a team's JWTs name; the URL may be that of an earlier PUBLIC_API_URL. */
export function isIssuerOf(teamId: string, iss: unknown): boolean {
  return typeof iss === 'string' && (iss === teamId || iss.endsWith(`/team/${teamId}`));
}

/** Where a team's own things are. */
export function teamUrl(teamId: string, publicUrl: string): string {
  return `${publicUrl.replace(/\/$/, '')}/team/${teamId}`;
}
