import type { ServerResponse } from 'node:http';
import type { Caller } from '../../../shared/contract/caller.ts';
import { ApiError } from '../../../shared/contract/errors.ts';
import { requirePace } from '../../../shared/auth/failed-authentications.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';
import { makeRate } from '../../../shared/runtime/rate.ts';
import { makeSlots } from '../../../shared/verification/slots.ts';

/**
 * As many run at once as there are connections to Postgres. A team never has all of them, nor a token all of its team's: whoever has
 * a leaked one can't keep its team from revoking it. Of those that wait, each may hold a body of 64 KiB; beyond those of all, up to
 * twice as many, wait those of teams that have less than their share.
 */
export const TURNS = {
  running: 10,
  ofTeam: 7,
  ofToken: 5,
  waiting: 2_000,
  waitingOfTeam: 500,
  waitingOfToken: 250,
  /** Most bytes of answers that the clients of a team have not read yet. */
  unsentOfTeam: 16 * 1024 * 1024,
};

/** Lets management calls run in turn, so that no team and no token holds up the others. */
export type FairTurns = ReturnType<typeof makeFairTurns>;

type Waiting = { running: number; queue: (() => void)[] };
type Team = { running: number; waiting: number; unsent: number; tokens: Map<string, Waiting> };

// Smaller answers fit into the buffers of the system.
const UNCOUNTED_BYTES = 64 * 1024;

/**
 * Makes the turns. A free turn goes to the next team that waits, and in it to its next token; each token's calls run in their
 * order. The maps keep the round: whoever got a turn goes to the end.
 */
export function makeFairTurns(limits = TURNS) {
  const teams = new Map<string, Team>();
  const waiting = makeSlots(limits.waiting);
  let running = 0;

  /** Throws 429 while the team has no room for one more call: for before the body is read. */
  function requireRoom({ teamId, tokenId }: Caller): void {
    const team = teams.get(teamId);
    if ((team?.unsent ?? 0) > limits.unsentOfTeam) throw full();
    const token = team?.tokens.get(tokenId);
    const mayWait =
      (team?.waiting ?? 0) < limits.waitingOfTeam &&
      (token?.queue.length ?? 0) < limits.waitingOfToken &&
      waiting.hasRoom(teamId);
    if (!mayRun(team, token) && !mayWait) throw full();
  }

  /** Runs the work when it is the caller's turn; throws 429 when too many of its team wait already. */
  async function inTurn<Result>(caller: Caller, work: () => Promise<Result>): Promise<Result> {
    const team = teamOf(caller.teamId);
    const token = team.tokens.getOrInsertComputed(caller.tokenId, () => ({ running: 0, queue: [] }));
    if (mayRun(team, token)) begin(team, token);
    else {
      requireRoom(caller);
      team.waiting += 1;
      waiting.enter(caller.teamId);
      await new Promise<void>((resolve) => token.queue.push(resolve));
    }
    try {
      // The answers of those before it may be unread.
      if (team.unsent > limits.unsentOfTeam) throw full();
      return await work();
    } finally {
      end(caller, team, token);
    }
  }

  /** Whether a call that comes now runs at once: a turn is free, and none of its token waits before it. */
  function mayRun(team: Team | undefined, token: Waiting | undefined): boolean {
    return (token?.queue.length ?? 0) === 0 && hasTurn(team, token);
  }

  function hasTurn(team: Team | undefined, token: Waiting | undefined): boolean {
    if (running >= limits.running) return false;
    return (team?.running ?? 0) < limits.ofTeam && (token?.running ?? 0) < limits.ofToken;
  }

  function begin(team: Team, token: Waiting): void {
    running += 1;
    team.running += 1;
    token.running += 1;
  }

  function end(caller: Caller, team: Team, token: Waiting): void {
    running -= 1;
    team.running -= 1;
    token.running -= 1;
    if (token.running === 0 && token.queue.length === 0) team.tokens.delete(caller.tokenId);
    forgetIdle(caller.teamId, team);
    while (giveTurn());
  }

  /** Gives one turn, if one is free and somebody may have it. */
  function giveTurn(): boolean {
    if (running >= limits.running) return false;
    for (const [teamId, team] of teams) {
      if (team.waiting === 0 || team.running >= limits.ofTeam) continue;
      for (const [tokenId, token] of team.tokens) {
        if (token.queue.length === 0 || !hasTurn(team, token)) continue;
        begin(team, token);
        team.waiting -= 1;
        waiting.leave(teamId);
        toEnd(team.tokens, tokenId, token);
        toEnd(teams, teamId, team);
        token.queue.shift()!();
        return true;
      }
    }
    return false;
  }

  /** Counts an answer against its team until its last byte has left. */
  function countUnsent({ teamId }: Caller, bytes: number, response: ServerResponse): void {
    if (bytes <= UNCOUNTED_BYTES || response.destroyed) return;
    const team = teamOf(teamId);
    team.unsent += bytes;
    response.once('close', () => {
      team.unsent -= bytes;
      forgetIdle(teamId, team);
    });
  }

  function teamOf(teamId: string): Team {
    return teams.getOrInsertComputed(teamId, () => ({ running: 0, waiting: 0, unsent: 0, tokens: new Map() }));
  }

  function forgetIdle(teamId: string, team: Team): void {
    if (team.running === 0 && team.waiting === 0 && team.unsent === 0) teams.delete(teamId);
  }

  return { requireRoom, inTurn, countUnsent };
}

function toEnd<Value>(map: Map<string, Value>, name: string, value: Value): void {
  map.delete(name);
  map.set(name, value);
}

function full(): ApiError {
  return new ApiError('too_many_waiting', { headers: { 'Retry-After': '1' } });
}

// A page of the portal sends six. Its customers are strangers to the operator, who sets the other limit.
const PORTAL_PER_SECOND = 20;
// More than any Stripe account is paid: what comes beyond comes again.
const SOURCE_PER_SECOND = 50;

/** Limits the management calls of each access token, and of each link token in the portal, in this process; throws 429 above `perSecond`. */
export function limitCalls(perSecond: number, clock: Clock): (caller: Caller) => void {
  const rate = makeRate(perSecond);
  const ofPortal = Math.min(perSecond, PORTAL_PER_SECOND);
  return ({ tokenId, portal, source }) => {
    const now = clock.monotonic();
    if (source) return requirePace('too_many_calls', rate(source.id, now, Math.min(perSecond, SOURCE_PER_SECOND)));
    const wait = portal ? rate(portal.linkTokenId, now, ofPortal) : rate(tokenId, now);
    requirePace('too_many_calls', wait);
  };
}
