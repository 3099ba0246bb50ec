import type { Logger } from '../../../shared/runtime/log.ts';
import { startLoop, type Loop } from '../../../shared/runtime/loop.ts';
import { openShards } from '../../../shared/stores/fence.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { runPipeline } from '../../../shared/stores/pipeline.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { deriveKey, type MasterKeys } from '../../../shared/values/seal.ts';
import { packHoldKeys } from '../../../shared/verification/hold-keys.ts';

const EVERY_MS = 1_000;
const WITHIN_MS = 1_000;

/**
 * Keeps in each open shard the keys that MACs of holds are made with, until stopped. They follow from the master keys: an emptied
 * Redis gets the same ones again, and while the master key is changed both are good.
 */
export function startWritingHoldKeys(redis: ShardedRedis, masterKeys: MasterKeys, log: Logger): Loop {
  const text = packHoldKeys(masterKeys.map((masterKey) => deriveKey(masterKey, 'holds')));
  const loop = startLoop(redis.clock, EVERY_MS, log, 'writing the keys of holds', async () => {
    const open = await openShards(redis, WITHIN_MS);
    for (const [node, shards] of redis.byNode([...open.keys()])) {
      const reading = node.client.pipeline();
      for (const shard of shards) reading.hget(keyspace.meta(shard), 'holdKeys');
      const known = (await runPipeline(redis.clock, reading, WITHIN_MS)) as (string | null)[];
      const writing = node.client.pipeline();
      for (const [i, shard] of shards.entries())
        if (known[i] !== text) writing.hset(keyspace.meta(shard), 'holdKeys', text);
      if (writing.length > 0) await runPipeline(redis.clock, writing, WITHIN_MS);
    }
  });
  redis.onReady(loop.soon);
  return loop;
}
