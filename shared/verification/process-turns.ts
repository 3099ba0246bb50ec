import { ApiError } from '../contract/errors.ts';
import { makeFairQueue, type Waiting } from './fair-queue.ts';
import type { Slots } from './slots.ts';

// What a call costs this process until it is answered, in μs of one machine (docs/decisions/teams-take-turns.md).
const CALL = 20;
const PER_BYTE = 0.015;
/** Calls of this cost begin in one turn of the event loop, some sixty plain ones; then it looks at other sockets first. */
const AT_ONCE = 1_500;
// While several teams call, some five: what begins together is read and answered together, and each call waits for all of it.
const AT_ONCE_OF_SEVERAL = 100;
// So many busy turns without a call of another team, and a team is alone again.
const TURNS_OF_SEVERAL = 200;
const COST_PER_TURN = 200;

// All who have not authenticated are one team among the others. No team has this id.
const STRANGERS = '';
const ANSWER_TO_STRANGER = 57.5;

/** Gives out this process's time. */
export type ProcessTurns = {
  /**
   * Waits for the turn of a team's call with so many bytes of body; undefined when it may run at once. Throws 503 while too many
   * others are being decided.
   */
  wait(team: string, bytes: number): Promise<void> | undefined;
  /** The same for an answer to somebody who has not authenticated, which goes at once where there is no room to wait. */
  waitAsStranger(): Promise<void> | undefined;
};

/**
 * Shares the event loop among teams. Whatever came on all sockets is worked off in one go: two hundred calls with long bodies
 * would hold up one small call by as many times their cost. Here they wait before their bodies are read, and teams take turns.
 * A call that waits has one of the slots.
 */
export function makeProcessTurns(slots: Slots): ProcessTurns {
  const queue = makeFairQueue<Waiting & { resolve(): void }>(COST_PER_TURN);
  let allowance = AT_ONCE;
  let lastTeam: string | undefined;
  let turnsOfSeveral = 0;
  let scheduled = false;

  function spend(cost: number): void {
    allowance -= cost;
    // Not for each call that comes alone: it costs what a call may cost.
    if (!scheduled && allowance < AT_ONCE / 2) schedule();
  }

  function schedule(): void {
    scheduled = true;
    setImmediate(giveTurns);
  }

  function giveTurns(): void {
    turnsOfSeveral = Math.max(0, turnsOfSeveral - 1);
    allowance = turnsOfSeveral > 0 ? AT_ONCE_OF_SEVERAL : AT_ONCE;
    scheduled = false;
    while (allowance > 0) {
      const next = queue.take();
      if (!next) return;
      spend(next.cost);
      next.resolve();
    }
    if (!scheduled) schedule();
  }

  function take(team: string, cost: number): Promise<void> | undefined {
    if (team !== lastTeam && lastTeam !== undefined) turnsOfSeveral = TURNS_OF_SEVERAL;
    lastTeam = team;
    if (queue.size() === 0 && allowance > 0) {
      spend(cost);
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    queue.push({ team, cost, resolve });
    if (!scheduled) schedule();
    slots.enter(team);
    return promise.then(() => slots.leave(team));
  }

  return {
    wait(team, bytes) {
      if (!slots.hasRoom(team)) throw new ApiError('overloaded');
      return take(team, Math.min(AT_ONCE, CALL + PER_BYTE * bytes));
    },
    waitAsStranger: () => (slots.hasRoom(STRANGERS) ? take(STRANGERS, ANSWER_TO_STRANGER) : undefined),
  };
}
