import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { BillingRef } from '../../../shared/books/billing-refs.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { makeCustomers, must } from '../../../tests/helpers/customers.ts';
import { connectTestRedis, makeWorld, type World } from '../../../tests/helpers/world.ts';
import { copyRecord } from './ended-grants.ts';

const test = suite('copies of ended grants');
let world: World;
let redis: ShardedRedis;

test.before(async () => {
  world = await makeWorld();
  redis = await connectTestRedis();
});
test.after(async () => {
  await redis?.close();
  await world?.stop();
});

test('a record is copied by several processes while its grants are voided: each gets an answer', async () => {
  const workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'granted' })).body.workspace.id;
  const customers = makeCustomers(world, workspaceId);
  const { meter } = await customers.meteredKey('1');
  const { id } = await customers.billing(meter);
  const path = `/api/v1/customer-billing/${id}/grant`;
  const grants: string[] = [];
  for (let i = 0; i < 60; i++) {
    const headers = { 'Idempotency-Key': `grant-${i}` };
    const made = await must(201, world.call('post', path, { credits: '1', priority: 10 }, { headers }));
    grants.push(made.body.grant.id);
  }
  const [record] = await world.sql<BillingRef[]>`
    select id, shard, workspace_id, external_meter_id from billing_records where id = ${id}`;
  let isVoiding = true;
  const copying = Array.from({ length: 4 }, async () => {
    while (isVoiding) await copyRecord(world.sql, redis, record!);
  });
  const voiding = (async () => {
    for (const one of grants) await must(200, world.call('post', `${path}/${one}/void`));
  })().finally(() => (isVoiding = false));
  await Promise.all([voiding, ...copying]);
  const [{ told }] = await world.sql<[{ told: number }]>`
    select count(told_turn)::int as told from grants where billing_id = ${id}`;
  assert.is(told, grants.length);
});

test.run();
