import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { ApiError } from '../contract/errors.ts';
import type { Logger } from '../runtime/log.ts';
import type { Metrics } from '../runtime/metrics.ts';
import { withTimeout } from '../runtime/timeout.ts';

const scripts = {
  adjust: 3,
  apply: undefined,
  balance: 2,
  begin: 2,
  checkpoint: 1,
  close: 2,
  open: 1,
  settle: 3,
  token: 2,
  wipe: undefined,
  witness: 3,
  verify: undefined,
} as const satisfies Record<string, number | undefined>;
type ScriptName = keyof typeof scripts;

// What these wrote is only answered once enough replicas have it.
const replicated: ReadonlySet<ScriptName> = new Set(['adjust', 'apply', 'settle', 'verify']);

const NOW_WITHIN_MS = 1_000;
const WAIT_MS = 200;
const ASK_AGAIN_MS = 500;

/** A connection to one Redis server that knows which one it is and how far that server's clock is from ours. */
export type RedisNode = {
  client: Redis;
  /** The server's run id, new with each start of the server; throws while the connection is not ready. */
  runId(): string;
  /** The server's clock, in ms: the one that days and limits go by. */
  now(): Promise<number>;
  /** The last moment, in Redis time (ms), at which a script may run so that its answer can still be here in time. */
  notAfter(withinMs: number): number;
  /** Learns the run id anew, where the connection outlives what it says. */
  refresh(): Promise<void>;
  /** Settles once the connection is ready, or rejects after so long. */
  connected(withinMs: number): Promise<void>;
  /** Runs a script. The answer's second element is Redis time. Not answered within `withinMs`: `redis_unavailable`. */
  script(name: ScriptName, keys: string[], args: (string | number)[], withinMs: number): Promise<string[]>;
  /**
   * Settles once as many replicas of a server as are asked for have a write and all before it; where none are, it is not
   * made. WAIT speaks of a connection's writes only (Redis 7.2 and up), and what was read was perhaps another's.
   */
  copied(givenBy: string, write: () => Promise<unknown>): Promise<void>;
  close(): Promise<void>;
};

export type NodeOptions = {
  /** Whether the server may be demoted and promoted again. */
  inCluster?: boolean;
  metrics?: Metrics;
  /** Replicas that must have a script's writes before its answer counts; preset 1 on a cluster, else 0. */
  minReplicas?: number | undefined;
};

/**
 * Connects to one server. A command whose answer is lost is rejected at once and never sent again, for a verification
 * that is sent twice is charged twice (ioredis: only `maxRetriesPerRequest: 0` does both); nor does a command wait for a
 * connection.
 */
export function connectNode(url: string, log: Logger, options: NodeOptions = {}): RedisNode {
  const client = new Redis(url, {
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableOfflineQueue: false,
    connectTimeout: 2_000,
    maxLoadingRetryTime: 200,
    retryStrategy: (attempt) => Math.min(50 * attempt, 500),
    // A peer that vanished without closing is noticed by its silence.
    socketTimeout: 2_000,
    // A user with no more rights than it needs may not tell it (and Redis 7.0 does not know it).
    disableClientInfo: true,
  });
  for (const [name, numberOfKeys] of Object.entries(scripts)) {
    const lua = readFileSync(new URL(`lua/${name}.lua`, import.meta.url), 'utf8');
    client.defineCommand(commandName(name), { lua, ...(numberOfKeys && { numberOfKeys }) });
  }

  const { minReplicas = 0 } = options;
  let runId = '';
  let clockOffsetMs: number | undefined;
  client.on('ready', () => {
    learn().catch((error: unknown) => log.warn({ error }, 'redis did not tell its run id'));
  });
  client.on('close', () => {
    runId = '';
    clockOffsetMs = undefined;
  });
  client.on('error', (error) => log.warn({ error }, 'redis connection failed'));

  async function learn(): Promise<void> {
    const sentAt = performance.now();
    const [server, replication, redisNowMs] = await Promise.all([
      client.info('server'),
      client.info('replication'),
      time(),
    ]);
    noteTime(redisNowMs, sentAt);
    identify(server, replication);
    client.emit('known');
  }

  // A server keeps its run id when it is demoted and promoted again, with older data; its replication id it does not.
  function identify(server: string, replication: string): void {
    const [, started = ''] = /^run_id:(\w+)/m.exec(server) ?? [];
    const [, history = ''] = /^master_replid:(\w+)/m.exec(replication) ?? [];
    runId = options.inCluster ? `${started}:${history}` : started;
  }

  async function time(): Promise<number> {
    const [seconds, micros] = await client.time();
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  }

  // Redis's clock was read after sending and before the answer was here, which bounds its offset from ours on both
  // sides. The highest lower bound is kept, so that a busy moment of ours does not make deadlines early; it errs by the
  // time of an answer's way back. Above a new upper bound it can't be right: then Redis's clock was set back.
  function noteTime(redisNowMs: number, sentAt: number): void {
    const atLeast = redisNowMs - performance.now();
    const atMost = redisNowMs + 1 - sentAt;
    if (clockOffsetMs === undefined || clockOffsetMs < atLeast || clockOffsetMs > atMost) clockOffsetMs = atLeast;
  }

  // One WAIT speaks for everything that was sent before it. Only one is under way, for it holds up the connection; who
  // comes meanwhile waits for the next.
  let waiting: Promise<void> | undefined;
  let following: Promise<void> | undefined;
  // While replicas are missing, what they must have is refused at once; the connection stays free to ask again.
  let missingUntil = 0;

  function copied(): Promise<void> {
    if (!waiting)
      return (waiting = nextTurn()
        .then(waitForReplicas)
        .finally(() => (waiting = undefined)));
    following ??= waiting
      .catch(() => {})
      .then(() => {
        following = undefined;
        return copied();
      });
    return following;
  }

  async function waitForReplicas(): Promise<void> {
    const replicas = await client.wait(minReplicas, WAIT_MS);
    if (replicas >= minReplicas) return;
    missingUntil = performance.now() + ASK_AGAIN_MS;
    throw new Error(`${replicas} of ${minReplicas} replicas have it`);
  }

  function requireReplicas(): void {
    if (performance.now() < missingUntil)
      throw new ApiError('redis_unavailable', { cause: new Error('replicas are missing') });
  }

  return {
    client,
    runId() {
      if (!runId) throw new ApiError('redis_unavailable');
      return runId;
    },
    now: () => withTimeout(NOW_WITHIN_MS, time()),
    refresh: () => withTimeout(NOW_WITHIN_MS, learn()),
    notAfter(withinMs) {
      if (clockOffsetMs === undefined) throw new ApiError('redis_unavailable');
      return Math.floor(performance.now() + clockOffsetMs + withinMs);
    },
    async connected(withinMs) {
      if (!runId) await withTimeout(withinMs, once(client, 'known'));
    },
    async script(name, keys, args, withinMs) {
      const run = client as unknown as Record<string, (...args: (string | number)[]) => Promise<string[]>>;
      const call = scripts[name] === undefined ? [keys.length, ...keys, ...args] : [...keys, ...args];
      const sentAt = performance.now();
      const copies = minReplicas > 0 && replicated.has(name);
      if (copies) requireReplicas();
      const answered = run[commandName(name)]!(...call);
      const both = copies ? Promise.all([answered, copied()]).then(([answer]) => answer) : answered;
      try {
        const answer = await withTimeout(withinMs, both);
        options.metrics?.scriptSeconds.observe({ script: name }, (performance.now() - sentAt) / 1000);
        noteTime(Number(answer[1]), sentAt);
        return answer;
      } catch (error) {
        throw new ApiError('redis_unavailable', { cause: error });
      }
    },
    async copied(givenBy, write) {
      if (minReplicas === 0) return;
      await Promise.all([write(), copied()]);
      if (runId !== givenBy) throw new Error('another redis server answers');
    },
    async close() {
      await client.quit().catch(() => client.disconnect());
    },
  };
}

function commandName(script: string): string {
  return `keytally_${script}`;
}
