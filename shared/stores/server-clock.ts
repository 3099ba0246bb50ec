import type { Redis } from 'ioredis';
import { ApiError } from '../contract/errors.ts';
import type { Clock } from '../runtime/clock.ts';

/** How far the clock of a Redis server is from ours, learned from its answers. */
export type ServerClock = {
  /** Asks the server for its time, in ms. */
  ask(): Promise<number>;
  /** Learns from an answer that holds Redis time: when its command was sent, by our monotonic clock. */
  note(redisNowMs: number, sentAt: number): void;
  /** The Redis time, in ms, at which a call's deadline passes; throws while nothing was learned. */
  notAfter(withinMs: number): number;
  /** Forgets what it learned: the next answer may come from another server. */
  forget(): void;
};

/** A clock that has learned nothing yet. */
export function makeServerClock(client: Redis, clock: Clock): ServerClock {
  let offsetMs: number | undefined;
  return {
    async ask() {
      const [seconds, micros] = await client.time();
      return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
    },
    // The server read its clock after the command was sent and before the answer was here: that bounds the offset on both
    // sides. The highest lower bound is kept, or a busy moment of ours would make deadlines early; it is wrong by the time
    // that an answer travels. An offset above a new upper bound is wrong: the server's clock was set back.
    note(redisNowMs, sentAt) {
      const atLeast = redisNowMs - clock.monotonic();
      const atMost = redisNowMs + 1 - sentAt;
      if (offsetMs === undefined || offsetMs < atLeast || offsetMs > atMost) offsetMs = atLeast;
    },
    notAfter(withinMs) {
      if (offsetMs === undefined) throw new ApiError('redis_unavailable');
      return Math.floor(clock.monotonic() + offsetMs + withinMs);
    },
    forget() {
      offsetMs = undefined;
    },
  };
}
