import { keyspace } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { RedisNode } from '../stores/redis-node.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop } from '../runtime/loop.ts';
import type { Running } from '../runtime/run.ts';
import { withTimeout } from '../runtime/timeout.ts';

/** Remembers which access tokens were used, and tells Redis now and then. */
export type TokenUses = Running & { note(shard: number, tokenId: string): void };
export type TokenUse = { tokenId: string; atMs: number };

const EVERY_MS = 10_000;
const WITHIN_MS = 1_000;
// Uses are told within ten seconds: what is older than the newest by so much was there when they were read.
const SURELY_READ_MS = 60_000;

/** Notes uses of access tokens in memory, and every ten seconds in Redis: no call waits for it, and none writes. */
export function noteTokenUses(redis: ShardedRedis, log: Logger): TokenUses {
  let uses = new Map<string, { shard: number; atMs: number }>();
  const repeating = startLoop(EVERY_MS, log, 'noting the use of access tokens', tell);

  async function tell(): Promise<void> {
    const told = uses;
    uses = new Map();
    try {
      await write(told);
    } catch (error) {
      uses = new Map([...told, ...uses]);
      throw error;
    }
  }

  async function write(told: typeof uses): Promise<void> {
    const byNode = Map.groupBy(told, ([, { shard }]) => redis.node(shard));
    for (const [{ client }, some] of byNode) {
      const pipeline = client.pipeline();
      // The newest stays (GT): several programs tell of the same token.
      for (const [tokenId, { shard, atMs }] of some)
        pipeline.zadd(keyspace.tokenUses(shard), 'GT', String(atMs), tokenId);
      await answersOf(pipeline);
    }
  }

  return {
    note: (shard, tokenId) => uses.set(tokenId, { shard, atMs: Date.now() }),
    async stop() {
      await repeating.stop();
      await tell().catch(() => {});
    },
  };
}

/** Hands over the uses that programs told of, and removes those that were surely handed over; some come again. */
export async function readTokenUses(redis: ShardedRedis, take: (uses: TokenUse[]) => Promise<void>): Promise<void> {
  for (const [node, shards] of redis.byNode()) {
    const uses = await usesOn(node, shards);
    if (uses.length === 0) continue;
    await take(uses);
    const newest = uses.reduce((latest, { atMs }) => Math.max(latest, atMs), 0);
    const pipeline = node.client.pipeline();
    for (const shard of shards)
      pipeline.zremrangebyscore(keyspace.tokenUses(shard), '-inf', String(newest - SURELY_READ_MS));
    await answersOf(pipeline);
  }
}

async function usesOn({ client }: RedisNode, shards: number[]): Promise<TokenUse[]> {
  const pipeline = client.pipeline();
  for (const shard of shards) pipeline.zrange(keyspace.tokenUses(shard), '0', '-1', 'WITHSCORES');
  const answers = (await answersOf(pipeline)) as string[][];
  return answers.flatMap((answer) =>
    answer.flatMap((tokenId, i) => (i % 2 === 0 ? [{ tokenId, atMs: Number(answer[i + 1]) }] : [])),
  );
}

async function answersOf(pipeline: ReturnType<RedisNode['client']['pipeline']>): Promise<unknown[]> {
  const answers = (await withTimeout(WITHIN_MS, pipeline.exec())) ?? [];
  for (const [error] of answers) if (error) throw error;
  return answers.map(([, answer]) => answer);
}
