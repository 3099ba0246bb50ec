import { ApiError, type ErrorName } from '../contract/errors.ts';
import { makeRate } from '../runtime/rate.ts';
import type { AuthenticateFrom } from './failed-authentications.ts';

/**
 * Limits the requests of each team in this process to `perSecond`, or to the team's own limit; throws 429. It counts after
 * the authentication: a stranger takes nothing of a team's share, and no memory.
 */
export function limitTeams(authenticate: AuthenticateFrom, perSecond: number): AuthenticateFrom {
  const rate = makeRate(perSecond);
  return async (authorization, address, holder) => {
    const caller = await authenticate(authorization, address, holder);
    requirePace('team_too_many_calls', rate(caller.teamId, performance.now(), caller.teamPerSecond));
    return caller;
  };
}

/** Throws the 429 of this name unless there is nothing to wait for. */
export function requirePace(name: ErrorName, waitSeconds: number): void {
  if (waitSeconds > 0) throw new ApiError(name, { headers: { 'Retry-After': String(waitSeconds) } });
}
