import type { Clock } from '../runtime/clock.ts';
import { ApiError } from '../contract/errors.ts';
import { hashKeyText, keyShard } from '../values/key-text.ts';
import type { Caller, Permission } from '../contract/caller.ts';
import { keyspace } from '../stores/keyspace.ts';
import { isGone, packRecord, readRecord } from '../stores/records.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { addressBits, blockBits } from '../values/ip.ts';

export const ACCESS_TOKEN_PREFIX = 'kt';

/** Finds the caller of an Authorization header, or throws 401. */
export type Authenticate = (authorization: string | undefined) => Promise<Caller>;

const CACHE_MS = 500;
const CACHE_SIZE = 10_000;
// `Bearer`, a space and the longest token have fewer. A longer header (blanks, say) is read each time it comes.
const LONGEST_CACHED = 128;

/**
 * Authenticates with `load`, which finds a token that is neither revoked nor, by its store's clock, expired. `noteUse` is
 * called only when `load` is, not for every request.
 */
export function makeAuthenticate(
  load: (shard: number, hash: string) => Promise<Caller | undefined>,
  noteUse: (shard: number, tokenId: string) => void,
  clock: Clock,
): Authenticate {
  return cacheCallers(find, clock);

  async function find(authorization: string): Promise<Caller> {
    const secret = bearerToken(authorization);
    const shard = keyShard(secret);
    if (shard === undefined || !secret.startsWith(`${ACCESS_TOKEN_PREFIX}_`)) throw new ApiError('token_unknown');
    const caller = await load(shard, hashKeyText(secret));
    if (!caller) throw new ApiError('token_unknown');
    noteUse(shard, caller.tokenId);
    return caller;
  }
}

/**
 * Authenticates with `find`, which throws 401 for an unknown credential. Callers are cached and the cache is emptied every
 * half second, so a credential that has ended is refused within that time. Unknown ones are not cached, so that guesses
 * cannot fill the cache.
 */
export function cacheCallers(find: (credential: string) => Promise<Caller>, clock: Clock): Authenticate {
  const callers = new Map<string, Promise<Caller>>();
  let forgetAt = -Infinity;

  return function authenticate(credential = '') {
    if (credential.length > LONGEST_CACHED) return find(credential);
    if (clock.monotonic() > forgetAt || callers.size >= CACHE_SIZE) {
      callers.clear();
      forgetAt = clock.monotonic() + CACHE_MS;
    }
    let caller = callers.get(credential);
    if (!caller) {
      caller = find(credential);
      callers.set(credential, caller);
      caller.catch(() => callers.delete(credential));
    }
    return caller;
  };
}

/** Throws 403 unless the caller holds the permission. */
export function requirePermission(caller: Caller, permission: Permission): void {
  if (caller.permissions.has(permission)) return;
  throw new ApiError('permission_missing', { message: `The access token lacks the permission ${permission}.` });
}

/** The bearer token of an Authorization header; 401 without one. The scheme may be in any case (RFC 6750). */
export function bearerToken(authorization: string | undefined): string {
  const token = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
  if (!token) throw new ApiError('token_missing');
  return token;
}

/** What Redis keeps of an access token, besides its version. */
export type TokenSettings = {
  tokenId: string;
  teamId: string;
  permissions: readonly string[];
  workspaceIds: readonly string[] | null;
  allowedIps: readonly string[] | null;
  expiresAt: number | null;
  teamPerSecond: number | null;
};

/** The record of an access token as Redis keeps it. */
export function packToken(version: number, token: TokenSettings): string {
  const { tokenId, teamId } = token;
  return packRecord('token', {
    version,
    tokenId,
    teamId,
    permissions: token.permissions.join(' '),
    workspaceIds: token.workspaceIds?.join(' ') ?? '*',
    expiresAtMs: token.expiresAt ?? 0,
    allowedIps: token.allowedIps?.join(' ') ?? '',
    teamPerSecond: token.teamPerSecond ?? '',
  });
}

/** Loads access tokens from Redis, since verification must not wait for Postgres. */
export function tokensFromRedis(redis: ShardedRedis, deadlineMs: number) {
  return async function load(shard: number, hash: string): Promise<Caller | undefined> {
    const keys = [keyspace.meta(shard), keyspace.token(shard, hash)];
    const node = redis.node(shard);
    const [status, now, record = ''] = await node.script('token', keys, [node.runId()], deadlineMs);
    if (status !== 'OK') throw new ApiError('undecided');
    if (isGone(record)) return undefined;
    const { tokenId, teamId, permissions, workspaceIds, expiresAtMs, allowedIps, teamPerSecond } = readRecord(
      'token',
      record,
    );
    if (Number(expiresAtMs) > 0 && Number(expiresAtMs) <= Number(now)) return undefined;
    return {
      tokenId,
      teamId,
      permissions: new Set(permissions.split(' ')),
      workspaceIds: workspaceIds === '*' ? undefined : workspaceIds.split(' '),
      allowedBlocks: blocksOf(allowedIps === '' ? [] : allowedIps.split(' ')),
      teamPerSecond: teamPerSecond ? Number(teamPerSecond) : undefined,
    };
  };
}

/** A list of addresses and blocks as `allowedBlocks` of a caller; an empty list allows every address. */
export function blocksOf(allowedIps: readonly string[]): readonly string[] | undefined {
  return allowedIps.length === 0 ? undefined : allowedIps.map(bitsOf);
}

/** Throws 403 unless the caller's token may be used from the address. */
export function requireAllowed({ allowedBlocks }: Caller, address: string): void {
  if (allowedBlocks === undefined) return;
  const bits = addressBits(address);
  if (bits === undefined || !allowedBlocks.some((block) => bits.startsWith(block)))
    throw new ApiError('address_not_allowed');
}

/** The entries of a list that another list does not cover. An empty list covers everything, and only such a list covers it. */
export function notCovered(wanted: readonly string[], by: readonly string[]): readonly string[] {
  const blocks = blocksOf(by);
  return blocks === undefined ? [] : wanted.filter((text) => !blocks.some((block) => bitsOf(text).startsWith(block)));
}

// A block that cannot be read covers no address.
function bitsOf(text: string): string {
  return blockBits(text) ?? 'none';
}
