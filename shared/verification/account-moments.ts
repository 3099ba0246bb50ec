import { ApiError } from '../contract/errors.ts';
import type { Logger } from '../runtime/log.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';
import { mapLimited } from '../runtime/map-limited.ts';
import { lastOpenShards } from '../stores/fence.ts';
import { keyspace } from '../stores/keyspace.ts';
import { runPipeline } from '../stores/pipeline.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { unlessWritten } from '../stores/unless-written.ts';

const EVERY_MS = 500;
const WITHIN_MS = 1_000;
const RECORDS_PER_SHARD = 100;
const SCRIPTS_AT_ONCE = 16;

/** Does what fell due at an account (docs/accounts-design.md) and takes in its settings. Where nothing is due, it changes nothing. */
export async function bringUpToDate(redis: ShardedRedis, shard: number, billingKey: string): Promise<void> {
  const node = redis.node(shard);
  const keys = [keyspace.meta(shard), billingKey, keyspace.outbox(shard), keyspace.due(shard)];
  const deadline = redis.clock.monotonic() + WITHIN_MS;
  let status: string | undefined;
  do [status] = await node.script('bring-up-to-date', keys, [node.runId(), node.notAfter(WITHIN_MS)], WITHIN_MS);
  while (status === 'AGAIN' && redis.clock.monotonic() <= deadline);
  if (status === 'CLOSED' || status === 'LATE' || status === 'AGAIN')
    throw new ApiError('redis_unavailable', { cause: new Error(`the bring-up-to-date script answered ${status}`) });
}

/**
 * Turns accounts on time that no call turns, until stopped. It needs Redis alone, and any number of processes may do so: an
 * account that another one has brought up to date has nothing due.
 */
export function startDoingMoments(redis: ShardedRedis, log: Logger): Loop {
  return startLoop(redis.clock, EVERY_MS, log, 'bringing accounts up to date', async () => {
    const due = await findDue(redis);
    await mapLimited(due, SCRIPTS_AT_ONCE, ({ shard, billingKey }) => bringUpToDate(redis, shard, billingKey));
    if (due.length >= RECORDS_PER_SHARD) return 0;
  });
}

type Due = { shard: number; billingKey: string };

/** The accounts of open shards that have something due, the first ones of each shard. */
async function findDue(redis: ShardedRedis): Promise<Due[]> {
  const open = await lastOpenShards(redis);
  const ofNodes = [...redis.byNode([...open.keys()])].map(async ([node, shards]) => {
    const [nowMs, { read: moments }] = await Promise.all([node.now(), readMoments(node, shards, WITHIN_MS)]);
    const due = shards.filter((_, i) => moments[i]! <= nowMs);
    if (due.length === 0) return [];
    const pipeline = node.client.pipeline();
    for (const shard of due)
      pipeline.zrange(keyspace.due(shard), '-inf', nowMs, 'BYSCORE', 'LIMIT', 0, RECORDS_PER_SHARD);
    const answers = (await runPipeline(redis.clock, pipeline, WITHIN_MS)) as string[][];
    return due.flatMap((shard, i) => answers[i]!.map((billingKey) => ({ shard, billingKey })));
  });
  // One that died since holds up no other.
  const found = await Promise.allSettled(ofNodes);
  return found.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
}

/** When the first account of each shard is due. */
const readMoments = unlessWritten(async ({ client, clock }, shards, withinMs) => {
  const pipeline = client.pipeline();
  for (const shard of shards) pipeline.zrange(keyspace.due(shard), 0, 0, 'WITHSCORES');
  const answers = (await runPipeline(clock, pipeline, withinMs)) as [billingKey?: string, atMs?: string][];
  return answers.map(([, atMs]) => Number(atMs ?? Infinity));
});
