import { ApiError } from '../contract/errors.ts';
import type { Logger } from '../runtime/log.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';
import { mapLimited } from '../runtime/map-limited.ts';
import { lastOpenShards } from '../stores/fence.ts';
import { keyspace } from '../stores/keyspace.ts';
import { runPipeline } from '../stores/pipeline.ts';
import type { ShardedRedis } from '../stores/redis.ts';

const EVERY_MS = 500;
const WITHIN_MS = 1_000;
const RECORDS_PER_SHARD = 100;
const SCRIPTS_AT_ONCE = 16;

/** Does what fell due at an account (docs/accounts-design.md) and takes in its settings. Where nothing is due, it changes nothing. */
export async function turnAccount(redis: ShardedRedis, shard: number, billingKey: string): Promise<void> {
  const node = redis.node(shard);
  const keys = [keyspace.meta(shard), billingKey, keyspace.outbox(shard), keyspace.due(shard)];
  const deadline = redis.clock.monotonic() + WITHIN_MS;
  for (;;) {
    const [status] = await node.script('turn', keys, [node.runId(), node.notAfter(WITHIN_MS)], WITHIN_MS);
    if (status !== 'AGAIN' || redis.clock.monotonic() > deadline) {
      if (status === 'CLOSED' || status === 'LATE' || status === 'AGAIN')
        throw new ApiError('redis_unavailable', { cause: new Error(`the turn script answered ${status}`) });
      return;
    }
  }
}

/**
 * Turns accounts on time that no call turns, until stopped. It needs Redis alone, and any number of processes may do so: an
 * account that another one has turned has nothing due.
 */
export function startTurning(redis: ShardedRedis, log: Logger): Loop {
  const loop = startLoop(redis.clock, EVERY_MS, log, 'turning accounts', async () => {
    const due = await findDue(redis);
    await mapLimited(due, SCRIPTS_AT_ONCE, ({ shard, billingKey }) => turnAccount(redis, shard, billingKey));
    if (due.length >= RECORDS_PER_SHARD) loop.soon();
  });
  return loop;
}

type Due = { shard: number; billingKey: string };

/** The accounts of open shards that have something due, the first ones of each shard. */
async function findDue(redis: ShardedRedis): Promise<Due[]> {
  const open = await lastOpenShards(redis);
  const ofNodes = [...redis.byNode([...open.keys()])].map(async ([node, shards]) => {
    const now = await node.now();
    const pipeline = node.client.pipeline();
    for (const shard of shards)
      pipeline.zrange(keyspace.due(shard), '-inf', now, 'BYSCORE', 'LIMIT', 0, RECORDS_PER_SHARD);
    const answers = (await runPipeline(redis.clock, pipeline, WITHIN_MS)) as string[][];
    return shards.flatMap((shard, i) => answers[i]!.map((billingKey) => ({ shard, billingKey })));
  });
  return (await Promise.all(ofNodes)).flat();
}
