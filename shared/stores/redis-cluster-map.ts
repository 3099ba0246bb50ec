import type { Redis } from 'ioredis';
import type { Clock } from '../runtime/clock.ts';
import { startLoop } from '../runtime/loop.ts';
import type { Logger } from '../runtime/log.ts';
import { withTimeout } from '../runtime/timeout.ts';
import { ALL_SHARDS } from '../values/key-text.ts';
import { keyspace } from './keyspace.ts';
import type { RedisNode } from './redis-node.ts';

const LOOK_EVERY_MS = 500;
const ASK_WITHIN_MS = 1_000;

/**
 * Which server of a cluster holds each shard now: it follows the map of the cluster from some of its addresses on, which is read
 * every half second and when a server comes or goes.
 */
export function followClusterMap(seeds: string[], open: (address: string) => RedisNode, log: Logger, clock: Clock) {
  const nodes = new Map<string, RedisNode>(seeds.map((address) => [address, connect(address)]));
  const listeners: (() => void)[] = [() => looking.soon()];
  let holders: (RedisNode | undefined)[] = [];
  const looking = startLoop(clock, LOOK_EVERY_MS, log, 'reading the map of the cluster', look);

  function connect(address: string): RedisNode {
    const node = open(address);
    node.client.on('ready', () => listeners.forEach((listener) => listener()));
    node.client.on('close', () => looking.soon());
    return node;
  }

  async function look(): Promise<void> {
    const ready = [...nodes.values()].filter((node) => node.client.status === 'ready');
    const newest = await readNewestMap(ready);
    if (!newest) return;
    // Only now: a server in this map was promoted before the map was read, so what it says of itself is from after that.
    await Promise.allSettled(ready.map((node) => node.refresh()));
    holders = ALL_SHARDS.map((shard) => {
      const slot = newest.slots[shard]!;
      const address = newest.ranges.find(({ first, last }) => first <= slot && slot <= last)?.address;
      return address === undefined ? undefined : nodes.getOrInsertComputed(address, connect);
    });
  }

  return {
    /** The server that holds a shard; undefined while none is known. */
    holder: (shard: number) => holders[shard],
    /** Calls back whenever a server has become ready. */
    onReady: (listener: () => void) => void listeners.push(listener),
    async close(): Promise<void> {
      await looking.stop();
      await Promise.all([...nodes.values()].map((node) => node.close()));
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

// Of several maps the one with the highest epoch is the newest: a server that was cut off still has an older one.
async function readNewestMap(nodes: RedisNode[]): Promise<SlotMap | undefined> {
  const answers = await Promise.allSettled(
    nodes.map((node) => withTimeout(node.clock, ASK_WITHIN_MS, readMap(node.client))),
  );
  const maps = answers.filter((answer) => answer.status === 'fulfilled').map((answer) => answer.value);
  return maps.filter((map) => map.ok).toSorted((a, b) => b.epoch - a.epoch)[0];
}

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

// A server that does not know its own address leaves the host out: it is the host that we asked.
function addressOf(server: [host: string, port: number, ...rest: unknown[]] | undefined, client: Redis) {
  return server && `${server[0] || client.options.host}:${server[1]}`;
}
