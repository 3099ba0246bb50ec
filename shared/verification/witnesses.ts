import { beginEvent } from '../events/event.ts';
import { openShards } from '../stores/fence.ts';
import { newId } from '../values/ids.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';

/** The debit and the balance that a verification answered: enough to say later what Redis has lost. */
export type Seen = { shard: number; keyHash: string; epoch: number; sequence: number; usedMicros: number };

/** Remembers the last answered balance of each billing record for a minute or two, and reports what Redis has lost. */
export type Witnesses = Loop & { remember(billingId: string, seen: Seen): void };

const LOOK_EVERY_MS = 500;
const LOOK_WITHIN_MS = 1_000;
const REPORT_WITHIN_MS = 2_000;
const REMEMBERED_MS = 60_000;
// About 250 bytes each, in two maps: `young` and `old`.
const MAX_REMEMBERED = 50_000;

/** Watches for shards that were opened in a new epoch, and reports balances of an earlier epoch to the books. */
export function keepWitnesses(redis: ShardedRedis, log: Logger): Witnesses {
  let young = new Map<string, Seen>();
  let old = new Map<string, Seen>();
  let outlived: [billingId: string, seen: Seen][] = [];
  let turnedAt = performance.now();

  const repeating = startLoop(LOOK_EVERY_MS, log, 'reporting remembered balances', async () => {
    if (young.size > MAX_REMEMBERED || performance.now() - turnedAt > REMEMBERED_MS) turn();
    const open = await openShards(redis, LOOK_WITHIN_MS);
    const before = (seen: Seen) => seen.epoch < (open.get(seen.shard)?.epoch ?? 0);
    const outdated = [...outlived, ...old, ...young].filter(([, seen]) => before(seen));
    if (outdated.length === 0) return;
    const lost = await Promise.all(outdated.map(([billingId, seen]) => report(billingId, seen)));
    const count = lost.filter(Boolean).length;
    if (count > 0)
      log.warn({ records: count }, 'redis lost balances that were answered; they were reported to the books');
  });

  function turn(): void {
    old = young;
    young = new Map();
    turnedAt = performance.now();
  }

  /** Reports one balance to the books if Redis has lost it; gives whether it has. */
  async function report(billingId: string, seen: Seen): Promise<boolean> {
    const { shard, keyHash, epoch, sequence, usedMicros } = seen;
    const node = redis.node(shard);
    const keys = [keyspace.meta(shard), keyspace.outbox(shard), keyspace.keyText(shard, keyHash)];
    const event = beginEvent({ kind: 'witness', id: newId('evt'), billingId, epoch, sequence, usedMicros });
    const args = [node.runId(), node.notAfter(REPORT_WITHIN_MS), epoch, sequence, event];
    const [status, , lost] = await node.script('witness', keys, args, REPORT_WITHIN_MS);
    if (status !== 'OK') throw new Error(`the witness script answered ${status}`);
    for (const one of [young, old]) if (one.get(billingId) === seen) one.delete(billingId);
    outlived = outlived.filter(([, one]) => one !== seen);
    return lost === '1';
  }

  return {
    ...repeating,
    remember(billingId, seen) {
      const known = young.get(billingId);
      // A balance from before a shard was opened again is kept beside the one that was answered since.
      if (known && known.epoch < seen.epoch && outlived.length <= MAX_REMEMBERED) outlived.push([billingId, known]);
      // Answers may arrive in another order than their scripts ran.
      const newer =
        !known || seen.epoch > known.epoch || (seen.epoch === known.epoch && seen.sequence > known.sequence);
      if (newer && young.size <= 2 * MAX_REMEMBERED) young.set(billingId, seen);
    },
  };
}
