import { beginEvent } from '../events/event.ts';
import { openShards } from '../stores/fence.ts';
import { newId } from '../values/ids.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';

/** What a verification was answered of its billing record: enough to tell later what was lost, should Redis lose it. */
export type Seen = { shard: number; keyHash: string; epoch: number; number: number; usedMicros: number };

/** Remembers the last balance that was answered of each record, for a minute or two, and hands over what Redis has lost. */
export type Witnesses = Loop & { remember(billingId: string, seen: Seen): void };

const LOOK_EVERY_MS = 500;
const LOOK_WITHIN_MS = 1_000;
const HAND_OVER_WITHIN_MS = 2_000;
const REMEMBERED_MS = 60_000;
// About 250 bytes each, twice.
const MAX_REMEMBERED = 50_000;

/** Watches for shards that were opened in a new epoch: what is remembered of an earlier one is handed to the books. */
export function keepWitnesses(redis: ShardedRedis, log: Logger): Witnesses {
  let young = new Map<string, Seen>();
  let old = new Map<string, Seen>();
  let outlived: [billingId: string, seen: Seen][] = [];
  let turnedAt = performance.now();

  const repeating = startLoop(LOOK_EVERY_MS, log, 'handing over remembered balances', async () => {
    if (young.size > MAX_REMEMBERED || performance.now() - turnedAt > REMEMBERED_MS) turn();
    const open = await openShards(redis, LOOK_WITHIN_MS);
    const before = (seen: Seen) => seen.epoch < (open.get(seen.shard)?.epoch ?? 0);
    const outdated = [...outlived, ...old, ...young].filter(([, seen]) => before(seen));
    if (outdated.length === 0) return;
    const lost = await Promise.all(outdated.map(([billingId, seen]) => handOver(billingId, seen)));
    const count = lost.filter(Boolean).length;
    if (count > 0) log.warn({ records: count }, 'redis lost balances that were answered; the books are told of them');
  });

  function turn(): void {
    old = young;
    young = new Map();
    turnedAt = performance.now();
  }

  /** Gives whether Redis has lost it. */
  async function handOver(billingId: string, seen: Seen): Promise<boolean> {
    const { shard, keyHash, epoch, number, usedMicros } = seen;
    const node = redis.node(shard);
    const keys = [keyspace.meta(shard), keyspace.outbox(shard), keyspace.keyText(shard, keyHash)];
    const event = beginEvent({ kind: 'witness', id: newId('evt'), billingId, epoch, sequence: number, usedMicros });
    const args = [node.runId(), node.notAfter(HAND_OVER_WITHIN_MS), epoch, number, event];
    const [status, , lost] = await node.script('witness', keys, args, HAND_OVER_WITHIN_MS);
    if (status !== 'OK') throw new Error(`the witness script answered ${status}`);
    for (const one of [young, old]) if (one.get(billingId) === seen) one.delete(billingId);
    outlived = outlived.filter(([, one]) => one !== seen);
    return lost === '1';
  }

  return {
    ...repeating,
    remember(billingId, seen) {
      const known = young.get(billingId);
      // What was answered before a shard was opened anew is not forgotten for what was answered since.
      if (known && known.epoch < seen.epoch && outlived.length <= MAX_REMEMBERED) outlived.push([billingId, known]);
      // Answers may come in another order than their scripts ran.
      const newer = !known || seen.epoch > known.epoch || (seen.epoch === known.epoch && seen.number > known.number);
      if (newer && young.size <= 2 * MAX_REMEMBERED) young.set(billingId, seen);
    },
  };
}
