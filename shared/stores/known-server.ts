import type { Redis } from 'ioredis';
import { ApiError } from '../contract/errors.ts';
import type { Clock } from '../runtime/clock.ts';

/** What a client has learned of the server that it leads to: which one it is, and how far its clock is from ours. */
export function makeKnownServer(client: Redis, clock: Clock, inCluster: boolean) {
  let runId = '';
  let offsetMs: number | undefined;

  /** Asks the server for its time, in ms. */
  async function askTime(): Promise<number> {
    return redisTimeMs(await client.time());
  }

  // Learns from an answer that holds Redis time: when its command was sent, by our monotonic clock. The server read its clock
  // after the command was sent and before the answer was here: that bounds the offset on both sides. The highest lower bound is
  // kept, or a busy moment of ours would make deadlines early; it is wrong by the time that an answer travels. An offset above a
  // new upper bound is wrong: the server's clock was set back.
  function noteTime(redisNowMs: number, sentAt: number): void {
    const atLeast = redisNowMs - clock.monotonic();
    const atMost = redisNowMs + 1 - sentAt;
    if (offsetMs === undefined || offsetMs < atLeast || offsetMs > atMost) offsetMs = atLeast;
  }

  return {
    /** The server's run id, new with each of its starts; throws while it is not known. */
    runId(): string {
      if (!runId) throw new ApiError('redis_unavailable');
      return runId;
    },
    isKnown: () => runId !== '',
    askTime,
    noteTime,
    /** The Redis time, in ms, at which a call's deadline passes; throws while nothing was learned. */
    notAfter(withinMs: number): number {
      if (offsetMs === undefined) throw new ApiError('redis_unavailable');
      return Math.floor(clock.monotonic() + offsetMs + withinMs);
    },
    async learn(): Promise<void> {
      const sentAt = clock.monotonic();
      const asked = [client.info('server'), client.info('replication'), askTime()] as const;
      const [server, replication, redisNowMs] = await Promise.all(asked);
      noteTime(redisNowMs, sentAt);
      const [, started = ''] = /^run_id:(\w+)/m.exec(server) ?? [];
      const [, history = ''] = /^master_replid:(\w+)/m.exec(replication) ?? [];
      // In a cluster a server may be demoted and promoted again, with older data: it keeps its run id, but not its replication id.
      runId = inCluster ? `${started}:${history}` : started;
    },
    /** Forgets what it learned: the next answer may come from another server. */
    forget(): void {
      runId = '';
      offsetMs = undefined;
    },
  };
}

/** What TIME answers, in ms. */
export function redisTimeMs(answer: unknown): number {
  const [seconds, micros] = (answer as [string, string]).map(Number) as [number, number];
  return seconds * 1000 + Math.floor(micros / 1000);
}
