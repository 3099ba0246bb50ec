// Lines of accounts in the books: holds, captures, releases, extensions, corrections and turns, beside verifications.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { billingKey, type BillingRef } from '../../shared/books/billing-refs.ts';
import { reconcile } from '../../shared/books/reconciling/reconcile.ts';
import { rebuildNoted } from '../../shared/books/rebuilding/rebuilder.ts';
import { keyspace } from '../../shared/stores/keyspace.ts';
import { storeWatermark } from '../../shared/events/watermark.ts';
import { makeConsumerWorld } from './helpers/consumer-world.ts';
import { makeLedger } from './helpers/ledger.ts';
import { copyRecentUse } from './jobs/recent-use.ts';
import { makeNoteLateEvents } from './note-late-events.ts';

const NOON = Date.UTC(2026, 2, 10, 12);
const never = new AbortController().signal;
const own = await makeConsumerWorld();

test('captures and corrections of a lost epoch are late as verifications are, and a late hold alone is noted, too', async () => {
  const ref = await newRecord();
  const epoch = (await shardEpoch()) - 1;
  await own.node.client.hset(billingKey(ref), { s: 'x', u: 0 });
  const ledger = makeLedger(ref.id, { epoch, timeMs: Date.now() - 1_000 });
  const hold = ledger.hold(5);
  let noted = 0;
  await makeNoteLateEvents(own.sql, own.redis, () => noted++)(ledger.events);
  assert.is(noted, 1);
  ledger.capture(hold, 8, 'charged');
  ledger.correct(hold, -2);
  await own.book(Date.now(), ledger.events);
  await storeWatermark(own.sql, 9e15);
  await rebuildNoted(own);
  const [found] = await reconcile(own, [ref], 0);
  assert.equal([found!.status, found!.usedMicros, found!.bookedMicros], ['EXACT', 6, 6]);
});

test('a hold is a use of its key, and what ends it is none: a key is not used again after it was deleted', async () => {
  const { keyId, billingId } = await own.storeKeyAndBilling();
  const ledger = makeLedger(billingId, { epoch: 1, timeMs: NOON, keyId });
  const hold = ledger.hold(5);
  ledger.at(NOON + 60_000).capture(hold, 5);
  await own.book(NOON, ledger.events);
  await copyRecentUse(own, never);
  const [used] = await own.sql<[{ at: number }]>`
    select last_used_at as at from key_last_used where key_id = ${keyId}`;
  assert.is(used.at, NOON);
  const [record] = await own.sql<[{ micros: number }]>`
    select used_micros as micros from billing_records where id = ${billingId}`;
  assert.is(record.micros, 5);
});

async function newRecord(): Promise<BillingRef> {
  const { billingId, workspaceId } = await own.storeKeyAndBilling();
  return { id: billingId, shard: 0, workspaceId, externalMeterId: 'm' };
}

async function shardEpoch(): Promise<number> {
  return Number(await own.node.client.hget(keyspace.meta(0), 'epoch'));
}
