import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { ApiError } from '../contract/errors.ts';
import { ALL_SHARDS } from '../values/key-text.ts';
import { keyspace } from './keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import { connectNode, type NodeOptions, type RedisNode } from './redis-node.ts';
import { startLoop } from '../runtime/loop.ts';
import { withTimeout } from '../runtime/timeout.ts';

/** Redis as a whole: one server, or the primaries of a cluster, each with the shards that it holds now. */
export type ShardedRedis = {
  /** The server that holds a shard; throws while none is known. */
  node(shard: number): RedisNode;
  /** What the shards that one script call may touch together have in common: all of one server; in a cluster, none. */
  together(shard: number): number;
  /** The shards, of those given or of all, by the server that holds them; those that none is known for are left out. */
  byNode(shards?: readonly number[]): Map<RedisNode, number[]>;
  /** The clock that days and limits go by, in ms. */
  now(): Promise<number>;
  /** Settles once every shard has a server that answers, or rejects after so long. */
  connected(withinMs: number): Promise<void>;
  /** Calls back whenever a server has become ready. */
  onReady(listener: () => void): void;
  close(): Promise<void>;
};

const LOOK_EVERY_MS = 500;
const ASK_WITHIN_MS = 1_000;

/** Connects to `redis://host:port`, or to the cluster that `redis+cluster://host:port,host:port` names some nodes of. */
export function connectRedis(url: string, log: Logger, options: NodeOptions = {}): ShardedRedis {
  const cluster = /^(rediss?)\+cluster:\/\/(.*@)?([^/]+)/.exec(url);
  if (!cluster) return oneServer(url, log, options);
  const [, scheme = '', credentials = '', seeds = ''] = cluster;
  const urlOf = (address: string) => `${scheme}://${credentials}${address}`;
  return clusterOf(seeds.split(','), urlOf, log, { ...options, minReplicas: options.minReplicas ?? 1 });
}

function oneServer(url: string, log: Logger, options: NodeOptions): ShardedRedis {
  const node = connectNode(url, log, options);
  return {
    node: () => node,
    together: () => 0,
    byNode: (shards = ALL_SHARDS) => new Map([[node, [...shards]]]),
    now: node.now,
    connected: node.connected,
    onReady: (listener) => node.client.on('ready', listener),
    close: node.close,
  };
}

/**
 * Follows a cluster's map of slots itself and sends each call straight to the server of its shard. A client that follows
 * redirections would carry the run id of the server that it meant to another, and so past the fence: here a MOVED is a
 * failed call, and the map is read anew.
 */
function clusterOf(
  seeds: string[],
  urlOf: (address: string) => string,
  log: Logger,
  options: NodeOptions,
): ShardedRedis {
  const nodes = new Map<string, RedisNode>(seeds.map((address) => [address, connect(address)]));
  const listeners: (() => void)[] = [];
  let holders: (RedisNode | undefined)[] = [];
  const looking = startLoop(LOOK_EVERY_MS, log, 'reading the map of the cluster', look);

  function connect(address: string): RedisNode {
    const node = connectNode(urlOf(address), log, { ...options, inCluster: true });
    node.client.on('ready', () => looking.soon());
    node.client.on('ready', () => listeners.forEach((listener) => listener()));
    node.client.on('close', () => looking.soon());
    return node;
  }

  async function look(): Promise<void> {
    const ready = [...nodes.values()].filter((node) => node.client.status === 'ready');
    const answers = await Promise.allSettled(ready.map((node) => withTimeout(ASK_WITHIN_MS, readMap(node.client))));
    const maps = answers.filter((answer) => answer.status === 'fulfilled').map((answer) => answer.value);
    // Of several maps the one of the highest epoch is the newest: a server that was cut off still has an older one.
    const newest = maps.filter((map) => map.ok).toSorted((a, b) => b.epoch - a.epoch)[0];
    if (!newest) return;
    // Only now: a server that the map names was promoted before, so what it says of itself is not from before that.
    await Promise.allSettled(ready.map((node) => node.refresh()));
    holders = ALL_SHARDS.map((shard) => {
      const slot = newest.slots[shard]!;
      const address = newest.ranges.find(({ first, last }) => first <= slot && slot <= last)?.address;
      if (address === undefined) return undefined;
      const known = nodes.get(address) ?? connect(address);
      nodes.set(address, known);
      return known;
    });
  }

  function node(shard: number): RedisNode {
    const holder = holders[shard];
    if (!holder) throw new ApiError('redis_unavailable', { cause: new Error(`no server is known for shard ${shard}`) });
    return holder;
  }

  return {
    node,
    together: (shard) => shard,
    byNode(shards = ALL_SHARDS) {
      const known = shards.filter((shard) => holders[shard]);
      return Map.groupBy(known, node);
    },
    now: async () => node(0).now(),
    async connected(withinMs) {
      const until = performance.now() + withinMs;
      while (!ALL_SHARDS.every((shard) => holders[shard])) {
        if (performance.now() > until) throw new ApiError('redis_unavailable');
        await sleep(20);
      }
      await Promise.all([...new Set(holders)].map((holder) => holder!.connected(until - performance.now())));
    },
    onReady: (listener) => listeners.push(listener),
    async close() {
      await looking.stop();
      await Promise.all([...nodes.values()].map((one) => one.close()));
    },
  };
}

type SlotMap = {
  ok: boolean;
  epoch: number;
  /** The slot of each shard, in which all its names lie. */
  slots: number[];
  ranges: { first: number; last: number; address: string | undefined }[];
};

/** A server's view of the cluster: which primary holds which slots. */
async function readMap(client: Redis): Promise<SlotMap> {
  const [info, ranges, ...slots] = await Promise.all([
    client.cluster('INFO'),
    client.cluster('SLOTS'),
    ...ALL_SHARDS.map((shard) => client.cluster('KEYSLOT', keyspace.meta(shard))),
  ]);
  return {
    ok: info.includes('cluster_state:ok'),
    epoch: Number(/cluster_current_epoch:(\d+)/.exec(info)?.[1]),
    slots,
    ranges: ranges.map(([first, last, primary]) => ({ first, last, address: addressOf(primary, client) })),
  };
}

// A server that was not told its own address leaves the host out: it is the one that it was asked at.
function addressOf(server: [host: string, port: number, ...rest: unknown[]] | undefined, client: Redis) {
  return server && `${server[0] || client.options.host}:${server[1]}`;
}
