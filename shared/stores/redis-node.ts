import { Redis } from 'ioredis';
import { ApiError } from '../contract/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { makeKnownServer } from './known-server.ts';
import { makeReplicaWait } from './replica-wait.ts';
import { callScript, isReplicated, type ScriptName } from './scripts.ts';
import { endSilentConnections } from './silence-watch.ts';

const NOW_WITHIN_MS = 1_000;

/** A connection to one Redis server that knows which one it is and how far that server's clock is from ours. */
export type RedisNode = ReturnType<typeof nodeOf>;

export type NodeOptions = {
  /** Whether the server may be demoted and promoted again. */
  inCluster?: boolean;
  metrics?: Metrics;
  /** Replicas that must have a script's writes before its answer counts; default 1 on a cluster, else 0. */
  minReplicas?: number | undefined;
};

/** Connects to one server. */
export function connectNode(url: string, log: Logger, clock: Clock, options?: NodeOptions): RedisNode {
  return nodeOf(makeClient(url, clock), log, clock, options);
}

/** The server behind a client. */
export function nodeOf(client: Redis, log: Logger, clock: Clock, options: NodeOptions = {}) {
  const server = makeKnownServer(client, clock, options.inCluster ?? false);
  const replicas = makeReplicaWait(client, clock, options.minReplicas ?? 0);
  client.on('ready', () => {
    learn().catch((error: unknown) => log.warn({ error }, 'redis did not answer with its run id'));
  });
  client.on('close', server.forget);
  client.on('error', (error) => log.warn({ error, hint: hintFor(error, client) }, 'redis connection failed'));

  async function learn(): Promise<void> {
    await server.learn();
    client.emit('known');
  }

  return {
    client,
    /** The time that waits for an answer go by. */
    clock,
    runId: server.runId,
    /** The server's clock, in ms: days and limits go by it. */
    now: () => withTimeout(clock, NOW_WITHIN_MS, server.askTime()),
    /** The last moment, in Redis time (ms), at which a script may run so that its answer can still be here in time. */
    notAfter: server.notAfter,
    /** Asks for the run id again: in a cluster it may change while the connection stays. */
    refresh: () => withTimeout(clock, NOW_WITHIN_MS, learn()),
    /** Settles once the connection is ready, or rejects after so long. */
    async connected(withinMs: number): Promise<void> {
      if (server.isKnown()) return;
      // Not events.once: that rejects at the first failed attempt to connect.
      const { promise, resolve } = Promise.withResolvers<void>();
      client.once('known', resolve);
      await withTimeout(clock, withinMs, promise).finally(() => client.off('known', resolve));
    },
    /** Runs a script. The answer's second element is Redis time. Not answered within `withinMs`: `redis_unavailable`. */
    async script(
      name: ScriptName,
      keys: string[],
      args: (string | number | Buffer)[],
      withinMs: number,
    ): Promise<string[]> {
      const sentAt = clock.monotonic();
      const copies = replicas.isNeeded && isReplicated(name);
      if (copies) replicas.require();
      const answered = callScript(client, name, keys, args);
      const both = copies ? Promise.all([answered, replicas.copied()]).then(([answer]) => answer) : answered;
      try {
        const answer = await withTimeout(clock, withinMs, both);
        options.metrics?.scriptSeconds.observe({ script: name }, (clock.monotonic() - sentAt) / 1000);
        server.noteTime(Number(answer[1]), sentAt);
        return answer;
      } catch (error) {
        throw new ApiError('redis_unavailable', { cause: error });
      }
    },
    /**
     * Calls `write`, then WAIT, and settles once enough replicas have what was read from the server of this run id. The write
     * is needed because WAIT (from Redis 7.2 on) counts a connection's own writes only. Does neither when no replica is configured.
     */
    async copied(runId: string, write: () => Promise<unknown>): Promise<void> {
      if (!replicas.isNeeded) return;
      await Promise.all([write(), replicas.copied()]);
      if (server.runId() !== runId) throw new Error('another redis server answers');
    },
    async close(): Promise<void> {
      await client.quit().catch(() => client.disconnect());
    },
  };
}

// Where only one side speaks TLS, either waits for the other or ends the connection, and neither says why.
function hintFor({ code = '' }: NodeJS.ErrnoException, { options }: Redis): string | undefined {
  if (!['ETIMEDOUT', 'ECONNRESET', 'EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER'].includes(code)) return undefined;
  return options.tls ? 'the address asks for TLS: does its port speak it?' : 'does its port ask for TLS (rediss://)?';
}

/**
 * A client that rejects a command at once when its answer is lost, and never sends it again: a verification that is sent
 * twice is charged twice (in ioredis only `maxRetriesPerRequest: 0` does both). Nor does a command wait for a connection.
 */
function makeClient(url: string, clock: Clock): Redis {
  const client = new Redis(url, {
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    connectTimeout: 2_000,
    maxLoadingRetryTime: 200,
    retryStrategy: (attempt) => Math.min(50 * attempt, 500),
    // CLIENT SETINFO: a user with no more rights than it needs may not send it, and Redis 7.0 does not know it.
    disableClientInfo: true,
  });
  endSilentConnections(client, clock);
  return client;
}
