import type { Clock } from '../../../shared/runtime/clock.ts';
import { requirePace } from '../../../shared/auth/team-rates.ts';
import type { Caller } from '../../../shared/contract/caller.ts';
import { makeRate } from '../../../shared/runtime/rate.ts';

// A page of the portal sends six. Its customers are strangers to the operator, who sets the other limit.
const PORTAL_PER_SECOND = 20;

/** Limits the management calls of each access token, and of each link token in the portal, in this process; throws 429 above `perSecond`. */
export function limitCalls(perSecond: number, clock: Clock): (caller: Caller) => void {
  const rate = makeRate(perSecond);
  const ofPortal = Math.min(perSecond, PORTAL_PER_SECOND);
  return ({ tokenId, portal }) => {
    const now = clock.monotonic();
    const wait = portal ? rate(portal.linkTokenId, now, ofPortal) : rate(tokenId, now);
    requirePace('too_many_calls', wait);
  };
}
