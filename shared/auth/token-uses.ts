import { keyspace } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import { runPipeline } from '../stores/pipeline.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop } from '../runtime/loop.ts';
import type { Running } from '../runtime/run.ts';

/** Remembers when access tokens were used, and writes it to Redis from time to time. */
export type TokenUses = Running & { note(shard: number, tokenId: string): void };
/** When an access token was last used. */
export type TokenUse = { tokenId: string; atMs: number };

const WRITE_EVERY_MS = 10_000;
const ANSWER_TIMEOUT_MS = 1_000;
// Uses reach Redis within ten seconds, so one that is this much older than the newest was there when they were read.
const SURELY_READ_MS = 60_000;

/** Notes uses of access tokens in memory and writes them to Redis every ten seconds, so that no request waits for it. */
export function noteTokenUses(redis: ShardedRedis, log: Logger): TokenUses {
  let uses = new Map<string, { shard: number; atMs: number }>();
  const repeating = startLoop(redis.clock, WRITE_EVERY_MS, log, 'noting the use of access tokens', flush);

  async function flush(): Promise<void> {
    const pending = uses;
    uses = new Map();
    try {
      await write(pending);
    } catch (error) {
      uses = new Map([...pending, ...uses]);
      throw error;
    }
  }

  async function write(pending: typeof uses): Promise<void> {
    const byNode = Map.groupBy(pending, ([, { shard }]) => redis.node(shard));
    for (const [{ client }, ofNode] of byNode) {
      const pipeline = client.pipeline();
      // GT keeps the newest use: several programs write uses of the same token.
      for (const [tokenId, { shard, atMs }] of ofNode)
        pipeline.zadd(keyspace.tokenUses(shard), 'GT', String(atMs), tokenId);
      await runPipeline(redis.clock, pipeline, ANSWER_TIMEOUT_MS);
    }
  }

  return {
    note: (shard, tokenId) => uses.set(tokenId, { shard, atMs: redis.clock.now() }),
    async stop() {
      await repeating.stop();
      await flush().catch(() => {});
    },
  };
}

/**
 * Hands the uses in Redis to `take`, then removes those that it has surely had. Younger ones stay and are handed over
 * again.
 */
export async function readTokenUses(redis: ShardedRedis, take: (uses: TokenUse[]) => Promise<void>): Promise<void> {
  for (const [node, shards] of redis.byNode()) {
    const uses = await usesOn(node, shards);
    if (uses.length === 0) continue;
    await take(uses);
    const newest = uses.reduce((latest, { atMs }) => Math.max(latest, atMs), 0);
    const pipeline = node.client.pipeline();
    for (const shard of shards)
      pipeline.zremrangebyscore(keyspace.tokenUses(shard), '-inf', String(newest - SURELY_READ_MS));
    await runPipeline(redis.clock, pipeline, ANSWER_TIMEOUT_MS);
  }
}

async function usesOn({ client, clock }: RedisNode, shards: number[]): Promise<TokenUse[]> {
  const pipeline = client.pipeline();
  for (const shard of shards) pipeline.zrange(keyspace.tokenUses(shard), '0', '-1', 'WITHSCORES');
  const answers = (await runPipeline(clock, pipeline, ANSWER_TIMEOUT_MS)) as string[][];
  return answers.flatMap((answer) =>
    answer.flatMap((tokenId, i) => (i % 2 === 0 ? [{ tokenId, atMs: Number(answer[i + 1]) }] : [])),
  );
}
