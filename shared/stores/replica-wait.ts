import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ApiError } from '../contract/errors.ts';
import type { Clock } from '../runtime/clock.ts';

const WAIT_MS = 200;
const ASK_AGAIN_MS = 500;

/**
 * Waits until enough replicas of a server have what this client wrote. It does by WAIT, which speaks for everything that its
 * connection sent before it. Only one WAIT is under way, for it holds up the connection; all that is sent meanwhile shares the
 * next one.
 */
export function makeReplicaWait(client: Redis, clock: Clock, minReplicas: number) {
  let current: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  // No WAIT is sent before this time.
  let missingUntil = -Infinity;

  /** Settles once enough replicas have all that this client has sent; rejects when they do not within `WAIT_MS`. */
  function copied(): Promise<void> {
    if (!current)
      return (current = nextTurn()
        .then(wait)
        .finally(() => (current = undefined)));
    next ??= current
      .catch(() => {})
      .then(() => {
        next = undefined;
        return copied();
      });
    return next;
  }

  async function wait(): Promise<void> {
    const replicas = await client.wait(minReplicas, WAIT_MS);
    if (replicas >= minReplicas) return;
    missingUntil = clock.monotonic() + ASK_AGAIN_MS;
    throw new Error(`${replicas} of ${minReplicas} replicas have it`);
  }

  return {
    /** Whether any replica is asked for. */
    isNeeded: minReplicas > 0,
    /** Fails at once with `redis_unavailable` if replicas were missing a moment ago: do not try a write that they could not confirm. */
    require(): void {
      if (clock.monotonic() < missingUntil)
        throw new ApiError('redis_unavailable', { cause: new Error('replicas are missing') });
    },
    copied,
  };
}
