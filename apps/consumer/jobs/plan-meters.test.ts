import { rejects } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { newId } from '../../../shared/values/ids.ts';
import { makeMeterStage, START_MS, TODAY_MS } from '../../webhooks/helpers/meter-stage.ts';

const { sql, team, plan, reach, book, newWorkspace, newDestination, withWaiting } = await makeMeterStage();

test('a planner that has lost its job to another takes nothing back that the other planned', async () => {
  const { id, billingIds } = await newWorkspace(1);
  const one = await newDestination(id, 'openmeter');
  await plan();
  await book(billingIds[0]!, START_MS, 1_000_000);
  await reach(TODAY_MS);
  let others = 0;
  const slow = new Proxy(sql, {
    get: (target, name) =>
      name !== 'begin'
        ? Reflect.get(target, name)
        : async (work: Parameters<Sql['begin']>[1]) => {
            if (others++ === 0) {
              await book(billingIds[0]!, START_MS, 2_000_000);
              await plan();
            }
            return sql.begin(work as never);
          },
  });
  await plan(slow);
  const planned = await sql`select micros from meter_events where destination_id = ${one.id}`;
  assert.equal([others > 0, planned.map(({ micros }) => micros)], [true, [3_000_000]]);
});

test('usage that can not be planned holds up no other, and fails the job', async () => {
  const { id, billingIds } = await newWorkspace(3);
  const one = await newDestination(id, 'openmeter');
  for (const billingId of billingIds) await book(billingId, START_MS, 1_000_000);
  // A number that is taken.
  const taken = { destinationId: one.id, teamId: team.id, billingId: billingIds[1]!, usageName: 'default', number: 1 };
  const hour = new Date(START_MS).toISOString();
  const empty = { micros: 0, events: 0, quantity: 0, externalId: '', eventName: '', state: 'SENT' };
  await sql`insert into meter_events ${sql({ id: newId('mev'), hour, ...taken, ...empty })}`;
  await reach(TODAY_MS);
  await rejects(plan(), /planning failed 1 times/);
  assert.equal(await one.states(), { SENT: 1, WAITING: 2 });
  await sql`delete from meter_events where destination_id = ${one.id} and number = 1`;
  await plan();
  assert.equal(await one.states(), { WAITING: 3 });
});

test('webhooks hear once of a destination that has taken nothing for an hour, and of events that failed', async () => {
  const one = await withWaiting('stripe', 1);
  await sql`
    insert into webhooks (id, team_id, workspace_id, url, events)
    values (${newId('hook')}, ${team.id}, ${one.workspaceId}, 'https://hooks.example.com', '{meter.failed}')`;
  const told = async () => {
    await plan();
    return sql<{ data: object }[]>`select data from webhook_events where subject_id = ${one.id} order by created_at`;
  };
  await one.send(() => '500');
  assert.is((await told()).length, 0);
  await sql`update meter_destinations set failing_since = now() - interval '61 minutes' where id = ${one.id}`;
  for (let twice = 0; twice < 2; twice++) assert.is((await told()).length, 1);
  await sql`update meter_events set external_id = 'nobody' where destination_id = ${one.id}`;
  await one.send();
  const data = (await told()).at(-1)!.data;
  assert.equal(data, {
    destinationId: one.id,
    name: 'stripe',
    kind: 'stripe',
    failedEvents: 1,
    error: `400: {"error":{"message":"No such customer: 'nobody'"}}`,
  });
});
