import { ApiError } from '../contract/errors.ts';
import { makeFairQueue, type Waiting } from './fair-queue.ts';
import type { Places } from './places.ts';

// What a call costs this process until it is answered, in μs of the machine that docs/decisions/teams-take-turns.md was
// measured on. They are below the truth, so that calls wait only when many come at once, never for the clock.
const CALL = 20;
const PER_BYTE = 0.015;
/** Calls of this cost run at once; after them the event loop looks at other sockets first. */
const AT_ONCE = 500;
const COST_PER_TURN = 200;

/** Gives out this process's time. */
export type ProcessTurns = {
  /**
   * Waits for the turn of a team's call with so many bytes of body; undefined when it may run at once. Throws 503 while too many
   * others are being decided.
   */
  wait(team: string, bytes: number): Promise<void> | undefined;
};

/**
 * Shares the event loop among teams. Whatever came on all sockets is worked off in one go: two hundred calls with long bodies
 * would hold up one small call by as many times their cost. Here they wait before their bodies are read, and teams take turns.
 * A call that waits has one of the places.
 */
export function makeProcessTurns(places: Places, now: () => number = () => performance.now()): ProcessTurns {
  const queue = makeFairQueue<Waiting & { resolve(): void }>(COST_PER_TURN);
  let allowance = AT_ONCE;
  let countedAt = now();

  function refill(): void {
    const at = now();
    allowance = Math.min(AT_ONCE, allowance + 1_000 * (at - countedAt));
    countedAt = at;
  }

  function giveTurns(): void {
    refill();
    while (allowance > 0) {
      const next = queue.take();
      if (!next) return;
      allowance -= next.cost;
      next.resolve();
    }
    if (queue.size() > 0) setImmediate(giveTurns);
  }

  return {
    wait(team, bytes) {
      if (!places.hasRoom(team)) throw new ApiError('overloaded');
      const cost = Math.min(AT_ONCE, CALL + PER_BYTE * bytes);
      refill();
      if (queue.size() === 0 && allowance > 0) {
        allowance -= cost;
        return undefined;
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      queue.push({ team, cost, resolve });
      if (queue.size() === 1) setImmediate(giveTurns);
      places.enter(team);
      return promise.then(() => places.leave(team));
    },
  };
}
