import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { meterShard } from '../../../shared/stores/keyspace.ts';
import { newId } from '../../../shared/values/ids.ts';
import { makeCustomers } from '../../../tests/helpers/customers.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';
import { recordLostAdjustments } from './lost-adjustments.ts';

const VOID_OF_GRANT_TO_COME = -1;

const world = await makeWorld();
const { redis } = world;

test('the last one comes back with those before it, and beside it the voids of grants to come', async () => {
  const { sql } = world;
  const workspaceId = await world.newWorkspace(world.team.id);
  const customers = makeCustomers(world, workspaceId);
  const meter = await customers.newMeter({ totalCredits: '10' });
  const { id } = await customers.billing(meter);
  // They would be applied at once.
  await world.api.stop();
  const made: string[] = [];
  for (const before of [null, VOID_OF_GRANT_TO_COME, null, null]) {
    made.push(newId('evt'));
    await sql`
      insert into adjustments (id, team_id, billing_id, number, amount_micros, usage_name, day, reason, token_id, request_id, before_micros)
      select ${made.at(-1)!}, ${world.team.id}, ${id}, ${made.length}, 0, 'default', '2026-02-01', 'r', min(id), 'r', ${before}
      from access_tokens where team_id = ${world.team.id}`;
  }
  await sql`update billing_records set last_adjustment = ${made.length} where id = ${id}`;
  const shard = meterShard(workspaceId, meter);
  const node = redis.node(shard);
  await recordLostAdjustments({ sql, redis }, [{ shard }], () => ({ fence: node.runId(), epoch: 1 }));
  const changes = await sql<{ entityId: string }[]>`
    select entity_id from changes where kind = 'adjustment' and applied_at is null order by id`;
  assert.equal(
    changes.map((change) => change.entityId),
    [made[1], made[3]],
  );
});
