import { setImmediate as nextTurn } from 'node:timers/promises';
import { beginEvent } from '../events/event.ts';
import { openShards, type OpenShard } from '../stores/fence.ts';
import { newId } from '../values/ids.ts';
import { keyspace } from '../stores/keyspace.ts';
import type { Logger } from '../runtime/log.ts';
import type { ShardedRedis } from '../stores/redis.ts';
import { startLoop, type Loop } from '../runtime/loop.ts';

/** The debit and the balance that a verification answered: enough to say later what Redis has lost. */
export type Seen = { shard: number; keyHash: string; epoch: number; sequence: number; usedMicros: number };

/** Remembers the last answered balance of each billing record for a minute or two, and reports what Redis has lost. */
export type Witnesses = Loop & { remember(billingId: string, seen: Seen): void };

type Remembered = { billingId: string; seen: Seen };

const LOOK_EVERY_MS = 500;
const LOOK_WITHIN_MS = 1_000;
const REPORT_WITHIN_MS = 2_000;
const REMEMBERED_MS = 60_000;
// About 250 bytes each, in two maps: `young` and `old`.
const MAX_REMEMBERED = 50_000;
// What one turn of the event loop may cost the verifications that wait meanwhile: less than a millisecond.
const LOOKED_AT_ONCE = 1_000;
const REPORTED_AT_ONCE = 16;

/** Watches for shards that were opened in a new epoch, and reports balances of an earlier epoch to the books. */
export function keepWitnesses(redis: ShardedRedis, log: Logger): Witnesses {
  let young = new Map<string, Seen>();
  let old = new Map<string, Seen>();
  // Balances of an earlier epoch than another one of the same record, or than its shard's.
  const outlived = new Set<Remembered>();
  // For each shard the epoch of its last opening after which all that is remembered was looked at.
  const lookedAt = new Map<number, number>();
  let turnedAt = redis.clock.monotonic();

  const repeating = startLoop(redis.clock, LOOK_EVERY_MS, log, 'reporting remembered balances', async () => {
    if (young.size > MAX_REMEMBERED || redis.clock.monotonic() - turnedAt > REMEMBERED_MS) turn();
    const open = await openShards(redis, LOOK_WITHIN_MS);
    const count = await reportOutdated(open);
    if (count > 0)
      log.warn({ records: count }, 'redis lost balances that were answered; they were reported to the books');
  });

  function turn(): void {
    old = young;
    young = new Map();
    turnedAt = redis.clock.monotonic();
  }

  /** Reports the balances from before their shards were opened, some at a time; gives how many Redis has lost. */
  async function reportOutdated(open: Map<number, OpenShard>): Promise<number> {
    const reopened = [...open].filter(([shard, { epoch }]) => epoch > (lookedAt.get(shard) ?? 0));
    if (reopened.length === 0 && outlived.size === 0) return 0;
    // From now on, what is remembered of an earlier epoch is outlived.
    for (const [shard, { epoch }] of reopened) lookedAt.set(shard, epoch);
    let looked = 0;
    let lost = 0;
    let outdated: Remembered[] = [];
    const reportAll = async () => {
      lost += (await Promise.all(outdated.map(report))).filter(Boolean).length;
      outdated = [];
    };
    try {
      for (const one of remembered(reopened.length > 0)) {
        if (one.seen.epoch < (open.get(one.seen.shard)?.epoch ?? 0)) outdated.push(one);
        if (outdated.length === REPORTED_AT_ONCE) await reportAll();
        if (++looked % LOOKED_AT_ONCE === 0) await nextTurn();
      }
      await reportAll();
    } catch (error) {
      for (const [shard] of reopened) lookedAt.delete(shard);
      throw error;
    }
    return lost;
  }

  /** What is remembered: what is outlived, or all. */
  function* remembered(all: boolean): Generator<Remembered> {
    yield* outlived;
    if (!all) return;
    for (const map of [old, young]) for (const [billingId, seen] of map) yield { billingId, seen };
  }

  /** Reports one balance to the books if Redis has lost it; gives whether it has. */
  async function report(one: Remembered): Promise<boolean> {
    const { billingId, seen } = one;
    const { shard, keyHash, epoch, sequence, usedMicros } = seen;
    const node = redis.node(shard);
    const keys = [keyspace.meta(shard), keyspace.outbox(shard), keyspace.keyText(shard, keyHash)];
    const event = beginEvent({ kind: 'witness', id: newId('evt'), billingId, epoch, sequence, usedMicros });
    const args = [node.runId(), node.notAfter(REPORT_WITHIN_MS), epoch, sequence, event];
    const [status, , lost] = await node.script('witness', keys, args, REPORT_WITHIN_MS);
    if (status !== 'OK') throw new Error(`the witness script answered ${status}`);
    for (const map of [young, old]) if (map.get(billingId) === seen) map.delete(billingId);
    outlived.delete(one);
    return lost === '1';
  }

  function outlive(billingId: string, seen: Seen): void {
    if (outlived.size <= MAX_REMEMBERED) outlived.add({ billingId, seen });
  }

  return {
    ...repeating,
    remember(billingId, seen) {
      // An answer from before its shard was opened again; the others of then were looked at.
      if (seen.epoch < (lookedAt.get(seen.shard) ?? 0)) return outlive(billingId, seen);
      const known = young.get(billingId);
      // A balance from before a shard was opened again is kept beside the one that was answered since.
      if (known && known.epoch < seen.epoch) outlive(billingId, known);
      // Answers may arrive in another order than their scripts ran.
      const newer =
        !known || seen.epoch > known.epoch || (seen.epoch === known.epoch && seen.sequence > known.sequence);
      if (newer && young.size <= 2 * MAX_REMEMBERED) young.set(billingId, seen);
    },
  };
}
