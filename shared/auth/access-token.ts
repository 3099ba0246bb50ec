import { ApiError } from '../contract/errors.ts';
import { hashKeyText, keyShard } from '../values/key-text.ts';
import type { Caller, Permission } from '../contract/caller.ts';
import { keyspace } from '../stores/keyspace.ts';
import { isGone, packRecord, readRecord } from '../stores/records.ts';
import type { ShardedRedis } from '../stores/redis.ts';

export const ACCESS_TOKEN_PREFIX = 'kt';

/** Finds the caller behind an Authorization header, or throws 401. */
export type Authenticate = (authorization: string | undefined) => Promise<Caller>;

const CACHE_MS = 500;
const CACHE_SIZE = 10_000;

/**
 * Authenticates by `load`, which finds a token that is in force, by the clock of its store. What it found is forgotten
 * every half second: a revoked token is refused within one. Unknown tokens are not kept, so that guessing fills nothing.
 * `noteUse` is told as seldom.
 */
export function makeAuthenticate(
  load: (shard: number, hash: string) => Promise<Caller | undefined>,
  noteUse: (shard: number, tokenId: string) => void,
): Authenticate {
  const callers = new Map<string, Promise<Caller>>();
  let forgetAt = 0;

  return function authenticate(authorization = '') {
    if (performance.now() > forgetAt || callers.size >= CACHE_SIZE) {
      callers.clear();
      forgetAt = performance.now() + CACHE_MS;
    }
    let caller = callers.get(authorization);
    if (!caller) {
      caller = find(authorization);
      callers.set(authorization, caller);
      caller.catch(() => callers.delete(authorization));
    }
    return caller;
  };

  async function find(authorization: string): Promise<Caller> {
    const text = bearerToken(authorization);
    const shard = keyShard(text);
    if (shard === undefined || !text.startsWith(`${ACCESS_TOKEN_PREFIX}_`)) throw new ApiError('token_unknown');
    const caller = await load(shard, hashKeyText(text));
    if (!caller) throw new ApiError('token_unknown');
    noteUse(shard, caller.tokenId);
    return caller;
  }
}

/** Throws 403 unless the caller holds the permission. */
export function requirePermission(caller: Caller, permission: Permission): void {
  if (caller.permissions.has(permission)) return;
  throw new ApiError('permission_missing', { message: `The access token lacks the permission ${permission}.` });
}

/** The bearer token of a header; 401 when there is none (RFC 6750, the scheme's name in any case). */
export function bearerToken(authorization: string | undefined): string {
  const text = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
  if (!text) throw new ApiError('token_missing');
  return text;
}

/** The record of an access token as Redis keeps it. */
export function packToken(version: number, token: Caller, expiresAt: number | null): string {
  const { tokenId, teamId } = token;
  const permissions = [...token.permissions].join(' ');
  const workspaceIds = token.workspaceIds?.join(' ') ?? '*';
  return packRecord('token', { version, tokenId, teamId, permissions, workspaceIds, expiresAtMs: expiresAt ?? 0 });
}

/** Loads access tokens from Redis, for verification, which must not wait for Postgres. */
export function tokensFromRedis(redis: ShardedRedis, withinMs: number) {
  return async function load(shard: number, hash: string): Promise<Caller | undefined> {
    const keys = [keyspace.meta(shard), keyspace.token(shard, hash)];
    const node = redis.node(shard);
    const [status, now, record = ''] = await node.script('token', keys, [node.runId()], withinMs);
    if (status !== 'OK') throw new ApiError('undecided');
    if (isGone(record)) return undefined;
    const { tokenId, teamId, permissions, workspaceIds, expiresAtMs } = readRecord('token', record);
    if (Number(expiresAtMs) > 0 && Number(expiresAtMs) <= Number(now)) return undefined;
    return {
      tokenId,
      teamId,
      permissions: new Set(permissions.split(' ')),
      workspaceIds: workspaceIds === '*' ? undefined : workspaceIds.split(' '),
    };
  };
}
