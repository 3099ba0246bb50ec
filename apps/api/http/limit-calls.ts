import { requirePace } from '../../../shared/auth/team-rates.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import { makeRate } from '../../../shared/runtime/rate.ts';

/** Limits the management calls of each access token in this process; throws 429 above `perSecond`. */
export function limitCalls(perSecond: number): (caller: Caller) => void {
  const rate = makeRate(perSecond);
  return ({ tokenId }) => requirePace('too_many_calls', rate(tokenId, performance.now()));
}
