import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { BillingRef } from '../../../shared/books/billing-refs.ts';
import { connectPostgres } from '../../../shared/stores/postgres.ts';
import { makeCustomers, must, newWorkspace } from '../../../tests/helpers/customers.ts';
import { passTime, recordOf } from '../../../tests/helpers/pass-time.ts';
import { joinWorld, once } from '../../../tests/helpers/world.ts';
import { copyEnded, copyRecord } from './ended-grants.ts';

const world = await joinWorld();
const { redis } = world;

test('what an ended grant gave is copied again once a late capture gives credits of a hold back to it', async () => {
  const record = await newRecord();
  const customers = makeCustomers(world, record.workspaceId);
  const key = await customers.newKey({ externalMeterId: record.externalMeterId });
  await add(record, 'grant', { credits: '5', expiresAt: Date.now() + 60_000, priority: 10 });
  const holdId = await customers.hold(key, '4');
  await passTime(world, redis, record.id, 90_000);
  const copied = async () =>
    (
      await world.sql`select used_micros, held_micros from grant_classes where billing_id = ${record.id} and told_turn > 0`
    ).map(({ usedMicros, heldMicros }) => [usedMicros, heldMicros]);
  assert.equal(await copied(), [[0, 4_000_000]]);
  await must(200, world.call('post', `${world.verify.url}/api/v1/usage/capture`, { holdId, usage: '1' }));
  await copyEnded(world.sql, redis, [record.shard], 'held');
  assert.equal(await copied(), [[1_000_000, 0]]);
});

test('a copy that has waited for its connection does not undo a later one', async () => {
  const record = await newRecord();
  const { grant } = await add(record, 'grant', { credits: '5', priority: 10 });
  await add(record, 'adjustment', { amount: '5', reason: 'r' });
  const path = `/api/v1/customer-billing/${record.id}/grant/${grant.id}/void`;
  await must(200, world.call('post', path, { reason: 'r' }));
  const sql = connectPostgres(world.env.DATABASE_URL!, { max: 1 });
  const only = await sql.reserve();
  const waiting = copyRecord(sql, redis, record);
  await add(record, 'adjustment', { amount: '-2', reason: 'r' });
  await copyRecord(world.sql, redis, record);
  only.release();
  await waiting;
  await sql.end();
  const rows = await world.sql<{ usedMicros: number }[]>`select used_micros from grants where id = ${grant.id}`;
  assert.equal([...rows], [{ usedMicros: 3_000_000 }]);
});

async function newRecord(): Promise<BillingRef> {
  const workspaceId = await newWorkspace(world);
  const customers = makeCustomers(world, workspaceId);
  return recordOf(world.sql, (await customers.billing(await customers.newMeter({ totalCredits: '1' }))).id);
}

async function add({ id }: BillingRef, what: 'grant' | 'adjustment', body: object) {
  return (await must(201, world.call('post', `/api/v1/customer-billing/${id}/${what}`, body, { headers: once() })))
    .body;
}
