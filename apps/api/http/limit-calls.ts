import { RateLimiterMemory } from 'rate-limiter-flexible';
import type { Caller } from '../../../shared/contract/caller.ts';
import { tooMany } from '../../../shared/auth/failed-authentications.ts';

/** Limits the management calls of each access token in this process; throws 429 above `perSecond`. */
export function limitCalls(perSecond: number): (caller: Caller) => Promise<void> {
  const limiter = new RateLimiterMemory({ points: perSecond, duration: 1 });
  return async ({ tokenId }) => {
    await limiter.consume(tokenId).catch(tooMany('too_many_calls'));
  };
}
