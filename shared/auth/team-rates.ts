import type { Clock } from '../runtime/clock.ts';
import type { Caller } from '../contract/caller.ts';
import { ApiError, type ErrorName } from '../contract/errors.ts';
import { makeRate } from '../runtime/rate.ts';
import type { AuthenticateFrom } from './failed-authentications.ts';

/** Counts a call of the caller's team; throws 429 beyond its limit. */
export type CountCall = (caller: Caller) => void;

/** Limits the calls of each team in this process to `perSecond`, or to the team's own limit. */
export function makeTeamRate(perSecond: number, clock: Clock): CountCall {
  const rate = makeRate(perSecond);
  return ({ teamId, teamPerSecond }) =>
    requirePace('team_too_many_calls', rate(teamId, clock.monotonic(), teamPerSecond));
}

/** Counts each request for its team after its authentication: a stranger takes nothing of a team's share, and no memory. */
export function limitTeams(authenticate: AuthenticateFrom, countCall: CountCall): AuthenticateFrom {
  return async (authorization, address, holder) => {
    const caller = await authenticate(authorization, address, holder);
    countCall(caller);
    return caller;
  };
}

/** Throws the 429 of this name unless there is nothing to wait for. */
export function requirePace(name: ErrorName, waitSeconds: number): void {
  if (waitSeconds > 0) throw new ApiError(name, { headers: { 'Retry-After': String(waitSeconds) } });
}
