import type { Logger } from '../runtime/log.ts';
import { startLoop } from '../runtime/loop.ts';
import type { Running } from '../runtime/run.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import type { ShardedRedis } from '../stores/redis.ts';

const FOLLOW_EVERY_MS = 500;

/**
 * Starts something for each Redis server that holds shards, and follows the cluster: when a server's shards change, it
 * stops what runs for that server and starts it again for the new shards.
 */
export function startPerNode(
  redis: ShardedRedis,
  log: Logger,
  start: (node: RedisNode, shards: number[]) => Running,
): Running {
  const started = new Map<RedisNode, { shards: string; running: Running }>();
  const following = startLoop(redis.clock, FOLLOW_EVERY_MS, log, 'following the servers', async () => {
    const held = redis.byNode();
    const outdated = [...started].filter(([node, { shards }]) => held.get(node)?.join() !== shards);
    await Promise.all(outdated.map(([, { running }]) => running.stop()));
    for (const [node] of outdated) started.delete(node);
    for (const [node, shards] of held) {
      if (!started.has(node)) started.set(node, { shards: shards.join(), running: start(node, shards) });
    }
  });
  return {
    async stop() {
      await following.stop();
      await Promise.all([...started.values()].map(({ running }) => running.stop()));
    },
  };
}
