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
    const lacking = [...open].filter(([, { holdKeys }]) => holdKeys !== text).map(([shard]) => shard);
    for (const [{ client }, shards] of redis.byNode(lacking)) {
      const writing = client.pipeline();
      for (const shard of shards) writing.hset(keyspace.meta(shard), 'holdKeys', text);
      await runPipeline(redis.clock, writing, WITHIN_MS);
    }
  });
  redis.onReady(loop.soon);
  return loop;
}
