import { setImmediate as turn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { noteCreditLooks } from '../../shared/books/credit-states.ts';
import { makeLogger } from '../../shared/runtime/log.ts';
import { connectPostgres } from '../../shared/stores/postgres.ts';
import { makeCustomers, must, type Customers } from '../../tests/helpers/customers.ts';
import { listenToAll } from '../../tests/helpers/told-webhooks.ts';
import { connectTestRedis, eventually, makeWorld, type World } from '../../tests/helpers/world.ts';
import { startLookingAtCredits } from './look-at-credits.ts';

// Whether a record's credits are exhausted, where something changes while somebody looks.

let world: World;
let customers: Customers;
let workspaceId: string;
const log = makeLogger('test', 'silent');
const test = suite('looking at credits');
test.before(async () => {
  world = await makeWorld(['verify']);
  const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
  workspaceId = workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(() => world?.stop());

test('a refill that comes while somebody looks is seen', async () => {
  const { key, meter } = await customers.meteredKey('10');
  const { id } = await customers.billing(meter);
  await must(200, customers.verify({ key, billing: { usage: '10' } }));
  await noteCreditLooks(world.sql, [id]);
  const redis = await connectTestRedis();
  // With one connection: what takes the look is sent before this test has that connection, and the look itself after it.
  const sql = connectPostgres(world.env.DATABASE_URL!, { max: 1, everyTeam: true });
  const looking = startLookingAtCredits(sql, redis, log);
  await turn();
  const reserved = await sql.reserve();
  const [look] = await reserved`select look_at > now() as is_taken from credit_looks where billing_id = ${id}`;
  assert.is(look?.['isTaken'], true);
  const refill = { workspaceId, externalMeterId: meter, refill: '10' };
  await must(200, world.call('post', '/api/v1/customer-billing/refill', refill));
  reserved.release();
  await eventually('nobody has to look', async () => {
    const looks = await world.sql`select from credit_looks where billing_id = ${id}`;
    return looks.length === 0;
  });
  const states = await world.sql`select from credit_states where billing_id = ${id} and is_exhausted`;
  assert.is(states.length, 0);
  await looking.stop();
  await Promise.all([sql.end(), redis.close()]);
});

test("credits that are exhausted by the operator's change alone are told, and replenished by the next one", async () => {
  const webhook = await listenToAll(world, workspaceId);
  const redis = await connectTestRedis();
  const looking = startLookingAtCredits(world.sql, redis, log);
  for (const [less, more] of [
    [{ allowOverages: false }, { allowOverages: true }],
    [{ spendCap: '3' }, { spendCap: '6' }],
  ]) {
    const meter = await customers.newMeter({ totalCredits: '1', allowOverages: true });
    const { id } = await customers.billing(meter);
    const { key } = await customers.newKey({ externalMeterId: meter });
    await must(200, customers.verify({ key, billing: { usage: '5' } }));
    await must(200, world.call('patch', `/api/v1/customer-billing/${id}`, less));
    const [told] = await webhook.until('credits.exhausted', id);
    assert.equal([told!.data['usedCredits'], told!.data['totalCredits']], ['5', '1']);
    await must(200, world.call('patch', `/api/v1/customer-billing/${id}`, more));
    await webhook.until('credits.replenished', id);
  }
  await looking.stop();
  await redis.close();
});

test('who adds to a record and who notes it at the same moment do not wait for each other', async () => {
  const { id } = await customers.billing(await customers.newMeter({}));
  let noted: Promise<void> | undefined;
  await world.sql.begin(async (tx) => {
    await tx`select from billing_records where id = ${id} for update`;
    noted = noteCreditLooks(world.sql, [id]);
    await eventually('it waits', async () => {
      const waiting = await world.sql`
        select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%insert into credit_looks%'`;
      return waiting.length > 0;
    });
    await noteCreditLooks(tx, [id]);
  });
  await noted;
});

test.run();
