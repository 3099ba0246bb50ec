import { rejects } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { copyRecentUse } from '../../../consumer/jobs/recent-use.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { rowsRead } from '../../../../tests/helpers/postgres/rows-read.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { billingsAfter } from './records.ts';
import { makeRecords } from '../../tests/helpers/records.ts';
import { callsOf, column, makeWorld, refused } from '../../tests/helpers/calls.ts';

const HOUR = 3_600_000;
const MANY = 4_000;
// Of its own: how Postgres reads a list follows from all that its tables hold.
const world = await makeWorld(['verify', 'consumer']);
const calls = callsOf(world);
const records = await makeRecords(world);

test('a workspace lists its records, each with the shape that it has alone, narrowed to a meter or to what keys of a customer draw on', async () => {
  const { newMeter, newKey } = records.customers;
  const made: string[] = [];
  // The last two are alike in all that an index on text keeps of them.
  for (const externalMeterId of ['one', 'two', 'other', `${'€'.repeat(255)}1`, `${'€'.repeat(255)}2`])
    made.push(await newMeter({ externalMeterId, totalCredits: '5' }));
  const [one, two, other, ...long] = made;
  for (const externalMeterId of [one, one, two]) await newKey({ externalMeterId, customerId: 'cus.7' });
  await newKey({ externalMeterId: other, customerId: 'cus.8' });
  for (const externalMeterId of long) await newKey({ externalMeterId, customerId: 'cus.9' });
  await newKey({ customerId: 'cus.7' });
  for (const [query, meters] of [
    ['', made],
    [`externalMeterId=${two}`, [two]],
    ['customerId=cus.7', [one, two]],
    [`customerId=cus.7&externalMeterId=${two}`, [two]],
    ['customerId=cus.9', long],
    ['customerId=nobody', []],
    ['search=O', [one, two, other]],
    ['search=o&customerId=cus.8', [other]],
  ] as const)
    assert.equal(column(await listed(query), 'externalMeterId'), meters, query);
  const [first] = await listed('');
  assert.equal(first, await records.billing(first!.id!));
  await refused(40001, calls.ask('get', `${path()}?availableBelow=9000000001`));
});

test('soon a list has what was used, held, granted and expired', async () => {
  const plain = await records.record('10');
  const { key, id, meter } = await records.record('10');
  await records.grant(id, { credits: '3', expiresAt: Date.now() + HOUR / 2, priority: 90 });
  await records.spend(plain.key, '2.5');
  await records.spend(key, '4', { hold: { expiresIn: 3600 } });
  await passTime(world, world.redis, id, 0.75 * HOUR);
  await world.booked();
  await copyRecentUse(world, new AbortController().signal);

  const [a] = await listed(`externalMeterId=${plain.meter}`);
  assert.equal([a!.usedCredits, a!.availableCredits], ['2.5', '7.5']);
  const [b] = await listed(`externalMeterId=${meter}`);
  assert.equal([b!.totalCredits, b!.heldCredits, b!.expiredCredits, b!.availableCredits], ['13', '4', '3', '6']);
  const few = async (below: string) => (await listed(`availableBelow=${below}`)).some((one) => one.id === id);
  assert.equal([await few('6.000001'), await few('6')], [true, false]);
});

test('of a workspace with many records, a page reads its own rows, whatever it is narrowed to', async () => {
  const workspace = await world.newWorkspace(world.team.id);
  await world.sql.begin(async (tx) => {
    // Without the triggers that count them.
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, used_micros, allow_overages)
      select 'bill_' || right(${workspace}, 20) || lpad(i::text, 6, '0'), ${world.team.id}, ${workspace}, 'm' || i, 0, i,
             i * ${MANY} % 7919, true
      from generate_series(1, ${MANY}::int) i`;
    await tx`
      insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, customer_id, external_meter_id)
      select 'key_' || right(${workspace}, 20) || lpad(i::text, 6, '0'), ${world.team.id}, ${workspace}, 0, 'k', 'k', '', true,
             'c', 'm' || i / 100
      from generate_series(1, ${MANY}::int) i`;
  });
  await world.sql`analyze billing_records, api_keys`;
  const all = { workspaceId: workspace, externalMeterId: undefined, customerId: undefined, belowMicros: undefined };
  for (const narrowed of [{}, { belowMicros: 2_000 }, { belowMicros: -100 }, { customerId: 'c' }]) {
    const filter = { ...all, ...narrowed };
    const first = await billingsAfter(world.sql, filter, '', 20);
    await world.sql.begin(async (tx) => {
      let rows = 0;
      const page = async () => void (rows = (await billingsAfter(tx, filter, first.at(-1)!.id, 20)).length);
      let read = 0;
      const inAll = await rowsRead(tx, 'billing_records', async () => {
        read = await rowsRead(tx, 'api_keys', page);
      });
      assert.is(rows, 20, JSON.stringify(narrowed));
      assert.ok(inAll + read <= 200, `${JSON.stringify(narrowed)} read ${inAll + read} rows`);
    });
  }
  const below = (await listed('availableBelow=0.0002', workspace, 200)).map((one) => Number(one.availableCredits));
  const inOrder = below.toSorted((a, b) => a - b);
  assert.equal(below, inOrder);
  assert.ok(below.length > 200, 'more than a page');
  // As of a cursor that is made up.
  for (const after of ['x:y', 'bill_1'])
    await rejects(billingsAfter(world.sql, { ...all, belowMicros: 1 }, after, 1), { errorName: 'invalid_cursor' });
});

const path = (workspace = records.workspaceId): string => `/api/v1/workspace/${workspace}/customer-billings`;

async function listed(query: string, workspace?: string, limit = 1): Promise<Record<string, string>[]> {
  const read = (page: string) => world.call('get', `${path(workspace)}?${page}&${query}`);
  return (await readPages<Record<string, string>>(limit, read)).flat();
}
