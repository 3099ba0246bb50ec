import { setTimeout as sleep } from 'node:timers/promises';
import { readMemory } from '../../../shared/events/outbox-watch.ts';
import { keyspace } from '../../../shared/stores/keyspace.ts';
import { ALL_SHARDS } from '../../../shared/values/key-text.ts';
import { makeKey, type Key } from '../load/participants.ts';
import { onPlainRedis, type Fault, type FaultContext } from './fault.ts';

const DECIDED_WITHIN_MS = 8_000;
const LOOK_EVERY_MS = 50;

/** Redis has no memory left for more. */
export const faultsOfMemory: Fault[] = [
  {
    name: 'Redis at its memory limit',
    expected: 'a key is disabled and a closed shard opened all the same; nothing is lost',
    on: onPlainRedis,
    make: fillMemory,
  },
];

async function fillMemory(context: FaultContext): Promise<void> {
  const { stage, random, manager, participants } = context;
  const [redis] = stage.redis;
  const revoked = await makeKey(manager, participants.workspaceId, 'revoked', participants.roomy[0]!.meter);
  // With nobody to take events away the outbox fills what is left; else the limit alone must be survived.
  const readers = random.chance(0.7) ? stage.programs.filter((name) => /^(consumer|relay)/.test(name)) : [];
  for (const name of readers) stage.signal(name, 'SIGSTOP');
  try {
    const { usedBytes } = await readMemory(redis!);
    await redis!.config('SET', 'maxmemory', usedBytes);
    await sleep(random.between(2_000, 3_000));
    if (revoked) await revoke(context, revoked);
    await closeShards(context, random.shuffled(ALL_SHARDS).slice(0, 4));
    // A reader that begins now finds the outbox as it is.
    for (const name of readers) stage.signal(name, 'SIGKILL');
    await sleep(random.between(1_000, 2_000));
  } finally {
    await redis!.config('SET', 'maxmemory', 0);
    for (const name of readers) stage.signal(name, 'SIGCONT');
  }
}

/** Disables a key, which must be decided soon, and asks for it: the checks see whether it is refused from then on. */
async function revoke({ manager, participants, verifier, complain }: FaultContext, key: Key): Promise<void> {
  const path = `/workspace/${participants.workspaceId}/api-key/${key.id}`;
  const change = { what: 'key.disable', of: key.id, method: 'patch', path, body: { enabled: false } } as const;
  const done = await manager.insist(change, DECIDED_WITHIN_MS);
  if (!done) return complain(`a key could not be disabled within ${DECIDED_WITHIN_MS / 1000} s`);
  for (let times = 5; times > 0; times--) await verifier.verify(key);
}

/** Closes shards, which the api must open again although Redis takes no more. */
async function closeShards({ stage, complain }: FaultContext, shards: number[]): Promise<void> {
  const [redis] = stage.redis;
  for (const shard of shards) await redis!.hdel(keyspace.meta(shard), 'owner');
  const until = performance.now() + DECIDED_WITHIN_MS;
  const isClosed = async (shard: number) => (await redis!.hexists(keyspace.meta(shard), 'owner')) === 0;
  for (const shard of shards) {
    while (await isClosed(shard)) {
      if (performance.now() > until) return complain(`shard ${shard} stayed closed for ${DECIDED_WITHIN_MS / 1000} s`);
      await sleep(LOOK_EVERY_MS);
    }
  }
}
