import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { BillingRef } from '../../../shared/books/billing-refs.ts';
import { makeCustomers, must, newWorkspace } from '../../../tests/helpers/customers.ts';
import { passTime, recordOf } from '../../../tests/helpers/pass-time.ts';
import { joinWorld, once } from '../../../tests/helpers/world.ts';
import { copyEnded } from './ended-grants.ts';

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

async function newRecord(): Promise<BillingRef> {
  const workspaceId = await newWorkspace(world);
  const customers = makeCustomers(world, workspaceId);
  return recordOf(world.sql, (await customers.billing(await customers.newMeter({ totalCredits: '1' }))).id);
}

async function add({ id }: BillingRef, what: 'grant' | 'adjustment', body: object) {
  return (await must(201, world.call('post', `/api/v1/customer-billing/${id}/${what}`, body, { headers: once() })))
    .body;
}
