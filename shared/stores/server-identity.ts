import type { Redis } from 'ioredis';
import { ApiError } from '../contract/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { ServerClock } from './server-clock.ts';

/** Which server a connection leads to: its run id is new with each start of the server. */
export type ServerIdentity = {
  /** Throws while it is not known. */
  runId(): string;
  isKnown(): boolean;
  /** Asks the server for its run id, and for its time. */
  learn(): Promise<void>;
  forget(): void;
};

/** The identity of the server behind a client; not known until `learn` was called. */
export function makeServerIdentity(
  client: Redis,
  serverClock: ServerClock,
  clock: Clock,
  inCluster: boolean,
): ServerIdentity {
  let runId = '';
  return {
    runId() {
      if (!runId) throw new ApiError('redis_unavailable');
      return runId;
    },
    isKnown: () => runId !== '',
    async learn() {
      const sentAt = clock.monotonic();
      const [server, replication, redisNowMs] = await Promise.all([
        client.info('server'),
        client.info('replication'),
        serverClock.ask(),
      ]);
      serverClock.note(redisNowMs, sentAt);
      runId = runIdFrom(server, replication, inCluster);
    },
    forget() {
      runId = '';
    },
  };
}

// In a cluster a server may be demoted and promoted again, with older data: it keeps its run id, but not its replication id.
function runIdFrom(server: string, replication: string, inCluster: boolean): string {
  const [, started = ''] = /^run_id:(\w+)/m.exec(server) ?? [];
  const [, history = ''] = /^master_replid:(\w+)/m.exec(replication) ?? [];
  return inCluster ? `${started}:${history}` : started;
}
