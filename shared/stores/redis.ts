import { ApiError } from '../contract/errors.ts';
import type { Clock } from '../runtime/clock.ts';
import type { Logger } from '../runtime/log.ts';
import { ALL_SHARDS } from '../values/key-text.ts';
import { followClusterMap } from './redis-cluster-map.ts';
import { connectNode, type NodeOptions, type RedisNode } from './redis-node.ts';

/** Redis as a whole: one server, or the primaries of a cluster, each with the shards that it holds now. */
export type ShardedRedis = {
  /** The server that holds a shard; throws while none is known. */
  node(shard: number): RedisNode;
  /** Shards of the same group may be touched by one script call: all of one server; in a cluster each is its own group. */
  batchGroup(shard: number): number;
  /** The given shards, or all, by the server that holds them; shards without a known server are left out. */
  byNode(shards?: readonly number[]): Map<RedisNode, number[]>;
  /** The time that waits for an answer go by. */
  clock: Clock;
  /** The clock that days and limits go by, in ms. */
  now(): Promise<number>;
  /** Settles once every shard has a server that answers, or rejects after so long. */
  connected(withinMs: number): Promise<void>;
  /** Calls back whenever a server has become ready. */
  onReady(listener: () => void): void;
  close(): Promise<void>;
};

/** Connects to `redis://host:port`, or to the cluster that `redis+cluster://host:port,host:port` names some nodes of. */
export function connectRedis(url: string, log: Logger, clock: Clock, options: NodeOptions = {}): ShardedRedis {
  const cluster = /^(rediss?)\+cluster:\/\/(.*@)?([^/]+)/.exec(url);
  if (!cluster) return ofOneServer(connectNode(url, log, clock, options));
  const [, scheme = '', credentials = '', seeds = ''] = cluster;
  const ofNodes = { ...options, minReplicas: options.minReplicas ?? 1, inCluster: true };
  const open = (address: string) => connectNode(`${scheme}://${credentials}${address}`, log, clock, ofNodes);
  return clusterOf(seeds.split(','), open, log, clock);
}

/** Redis that is one server, which holds all shards. */
export function ofOneServer(node: RedisNode): ShardedRedis {
  return {
    clock: node.clock,
    node: () => node,
    batchGroup: () => 0,
    byNode: (shards = ALL_SHARDS) => new Map(shards.length > 0 ? [[node, [...shards]]] : []),
    now: node.now,
    connected: node.connected,
    onReady: (listener) => node.client.on('ready', listener),
    close: node.close,
  };
}

/**
 * Follows a cluster's map of slots itself and sends each call straight to the server of its shard. A client that follows
 * redirections would carry the run id of one server to another, and so past the fence. Here a MOVED is a failed call, and
 * the map is read again.
 */
function clusterOf(seeds: string[], open: (address: string) => RedisNode, log: Logger, clock: Clock): ShardedRedis {
  const map = followClusterMap(seeds, open, log, clock);

  function node(shard: number): RedisNode {
    const holder = map.holder(shard);
    if (!holder) throw new ApiError('redis_unavailable', { cause: new Error(`no server is known for shard ${shard}`) });
    return holder;
  }

  return {
    clock,
    node,
    batchGroup: (shard) => shard,
    byNode: (shards = ALL_SHARDS) =>
      Map.groupBy(
        shards.filter((shard) => map.holder(shard)),
        node,
      ),
    now: async () => node(0).now(),
    async connected(withinMs) {
      const until = clock.monotonic() + withinMs;
      while (!ALL_SHARDS.every((shard) => map.holder(shard))) {
        if (clock.monotonic() > until) throw new ApiError('redis_unavailable');
        await clock.sleep(20);
      }
      await Promise.all([...new Set(ALL_SHARDS.map(node))].map((one) => one.connected(until - clock.monotonic())));
    },
    onReady: map.onReady,
    close: map.close,
  };
}
