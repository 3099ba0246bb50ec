import type { Clock } from '../runtime/clock.ts';
import { ApiError } from '../contract/errors.ts';
import { makeFairQueue } from './fair-queue.ts';

/** One call of a script that decides several: the name of its record, and the packed call. */
export type ScriptCall = {
  shard: number;
  key: string;
  packed: string;
  /** The start of a verification's event: calls of a key that are alike but for it are decided as one group. */
  event?: string;
  /** Whose call it is, and what it is expected to cost Redis (call-cost.ts). */
  team: string;
  cost: number;
  /** When its answer began to be waited for, by our monotonic clock. */
  since: number;
  /** Whether its client has left: then it is not worth deciding, and must cost nothing. */
  isGone?: (() => boolean) | undefined;
};
export type WaitingCall<Answer> = ScriptCall & { resolve(answer: Answer): void; reject(error: unknown): void };

/** The calls that wait for one Redis server. */
export type WaitingCalls<Answer> = ReturnType<typeof makeWaitingCalls<Answer>>;

/** A script of so many calls, or of this cost (μs) and one call more, keeps Redis from others for less than a millisecond. */
export const MOST_PER_SCRIPT = 16;
const COST_PER_SCRIPT = 160;
// A call that waited here for this share of its time could hardly be answered any more.
const WAITS_AT_MOST = 0.8;

/** Keeps calls until they are sent; teams take turns by what their calls cost. */
export function makeWaitingCalls<Answer>(clock: Clock, deadlineMs: number) {
  const queue = makeFairQueue<WaitingCall<Answer>>(COST_PER_SCRIPT);

  /** Takes the calls of a script, and refuses those that waited for too long or whose clients have left: they cost nothing. */
  function takeBatch(): WaitingCall<Answer>[] {
    const now = clock.monotonic();
    const calls: WaitingCall<Answer>[] = [];
    let cost = 0;
    while (calls.length < MOST_PER_SCRIPT && cost < COST_PER_SCRIPT) {
      const call = queue.take();
      if (!call) break;
      const waitedMs = now - call.since;
      if (call.isGone?.()) call.reject(new ApiError('overloaded', { cause: new Error('its client has left') }));
      else if (waitedMs < deadlineMs * WAITS_AT_MOST) {
        calls.push(call);
        cost += call.cost;
      } else call.reject(new ApiError('overloaded', { cause: spent(waitedMs, deadlineMs) }));
    }
    return calls;
  }

  return { push: queue.push, size: queue.size, charge: queue.charge, takeBatch };
}

/** Says in the log why so few milliseconds were left for Redis: this process was busy while the calls waited in it. */
export function withWait(error: unknown, waitedMs: number, deadlineMs: number): unknown {
  if (!(error instanceof ApiError) || waitedMs * 2 < deadlineMs) return error;
  const cause = spent(waitedMs, deadlineMs, error.cause);
  return new ApiError(error.errorName, { message: error.message, cause });
}

function spent(waitedMs: number, deadlineMs: number, cause?: unknown): Error {
  const passed = `${Math.round(waitedMs)} of the ${deadlineMs} ms for an answer had passed`;
  return new Error(`${passed} in this busy process before it asked Redis`, { cause });
}
