import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { requireAllowed } from './access-token.ts';
import type { Caller } from '../contract/caller.ts';
import { ApiError, type ErrorName } from '../contract/errors.ts';
import { addressBits } from '../values/ip.ts';
import { shardOf } from '../values/key-text.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import type { Clock } from '../runtime/clock.ts';
import { makeRate } from '../runtime/rate.ts';

const PER_SECONDS = 60;

/**
 * Finds the caller of an Authorization header that came from a client address, or throws 401, 403 or 429. `holder` is the
 * address of who holds the token, where that is not the client: a gateway asks for its clients.
 */
export type AuthenticateFrom<Given = string | undefined> = (
  given: Given,
  address: string,
  holder?: string,
) => Promise<Caller>;

/**
 * Makes guessing tokens costly: after `perMinute` failures from one address, its further failures get 429. Redis counts
 * them for all processes together. Only a failure is counted, so a valid token always passes and costs nothing extra. It waits for
 * its `turn` first: what a thousand strangers send at once holds nobody else up.
 */
export function limitFailures<Given = string | undefined>(
  authenticate: (given: Given) => Promise<Caller>,
  redis: ShardedRedis,
  perMinute: number,
  turn: () => Promise<void> | undefined = () => undefined,
): AuthenticateFrom<Given> {
  const settings = { points: perMinute, duration: PER_SECONDS };
  // Counts in this process alone while Redis is unavailable.
  const insurance = new RateLimiterMemory(settings);
  const limiters = new WeakMap<RedisNode, RateLimiterRedis>();

  function limiterFor(shard: number): RateLimiterRedis | RateLimiterMemory {
    try {
      const node = redis.node(shard);
      const options = {
        ...settings,
        keyPrefix: '',
        inMemoryBlockOnConsumed: perMinute + 1,
        insuranceLimiter: insurance,
      };
      return limiters.getOrInsertComputed(node, () => new RateLimiterRedis({ ...options, storeClient: node.client }));
    } catch {
      return insurance;
    }
  }

  async function count(address: string): Promise<void> {
    const network = networkOf(address);
    const shard = shardOf(network);
    await limiterFor(shard).consume(keyspace.failures(shard, network));
  }

  return async (given, address, holder = address) => {
    try {
      const caller = await authenticate(given);
      requireAllowed(caller, holder);
      return caller;
    } catch (error) {
      if (!(error instanceof ApiError) || !isFailure(error)) throw error;
      await turn();
      await count(address).catch(tooMany);
      throw error;
    }
  };
}

/** Whether nobody was recognised: a credential, a signature or who signs is unknown. */
function isFailure({ status, errorName }: ApiError): boolean {
  return status === 401 || errorName === 'payment_signature_wrong' || errorName === 'payment_source_not_found';
}

/** Handles the rejection of a rate limiter: throws the 429 that says how long to wait, or any other error as it is. */
function tooMany(reason: unknown): never {
  if (!(reason instanceof RateLimiterRes)) throw reason;
  const seconds = Math.max(1, Math.ceil(reason.msBeforeNext / 1000));
  throw new ApiError('too_many_failures', { headers: { 'Retry-After': String(seconds) } });
}

/** What counts as one client: of an IPv6 address its whole /64 network, all of whose addresses whoever has one of them has. */
export function networkOf(address: string): string {
  const bits = addressBits(address) ?? '';
  return bits.startsWith('6:') ? bits.slice(0, 2 + 64) : bits;
}

/** Counts a call of the caller's team; throws 429 beyond its limit. */
export type CountCall = (caller: Caller) => void;

/** Limits the calls of each team in this process to `perSecond`, or to the team's own limit. */
export function makeTeamRate(perSecond: number, clock: Clock): CountCall {
  const rate = makeRate(perSecond);
  return ({ teamId, teamPerSecond }) =>
    requirePace('team_too_many_calls', rate(teamId, clock.monotonic(), teamPerSecond));
}

/** Counts each request for its team after its authentication: a stranger takes nothing of a team's share, and no memory. */
export function limitTeams<Given>(
  authenticate: AuthenticateFrom<Given>,
  countCall: CountCall,
): AuthenticateFrom<Given> {
  return async (given, address, holder) => {
    const caller = await authenticate(given, address, holder);
    countCall(caller);
    return caller;
  };
}

/** Throws the 429 of this name unless there is nothing to wait for. */
export function requirePace(name: ErrorName, waitSeconds: number): void {
  if (waitSeconds > 0) throw new ApiError(name, { headers: { 'Retry-After': String(waitSeconds) } });
}
