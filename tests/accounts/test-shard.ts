import type { Redis } from 'ioredis';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { packRecord } from '../../shared/stores/records.ts';

// The open shard that the scripts of the product run on, by a clock that the test sets to the µs.

export const SHARD = 7;
export const RUN_ID = 'the run id of the tests';
export const FIRST_EPOCH = 3;
const CLOCK = '{07}:clock';

/** Opens the shard, with a workspace in it. */
export async function openShard(redis: Redis, workspaceId: string, epoch = FIRST_EPOCH): Promise<void> {
  const workspace = packRecord('workspace', { version: 1, defaultRatePerSecond: '', defaultAddressList: '' });
  await redis.hset(keyspace.meta(SHARD), { owner: RUN_ID, epoch, writes: 1 });
  await redis.hset(keyspace.workspace(SHARD, workspaceId), { d: workspace });
}

/** A script that reads the clock of the test. */
export function byClock(script: string): string {
  return script.replace("call('TIME')", `call('HMGET', '${CLOCK}', 's', 'us')`);
}

/** Sets the clock that the scripts read. */
export async function setMicros(redis: Redis, micros: bigint): Promise<void> {
  await redis.hset(CLOCK, { s: String(micros / 1_000_000n), us: String(micros % 1_000_000n) });
}

/** Sets the clock that the scripts read, in ms. */
export async function setClock(redis: Redis, nowMs: number): Promise<void> {
  await setMicros(redis, BigInt(nowMs) * 1000n);
}
