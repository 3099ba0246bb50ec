import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { copyRecentUse } from '../../../consumer/jobs/recent-use.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { readPages } from '../../../../tests/helpers/read-pages.ts';
import { makeWorld } from '../../../../tests/helpers/world.ts';
import { makeRecords } from '../../tests/helpers/records.ts';

const HOUR = 3_600_000;
// Of its own: how Postgres reads a list follows from all that its tables hold.
const world = await makeWorld(['verify', 'consumer']);
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
  ] as const)
    assert.equal(
      (await listed(query)).map(({ externalMeterId }) => externalMeterId),
      meters,
      query,
    );
  const [first] = await listed('');
  assert.equal(first, await records.billing(first!.id!));
  assert.is((await world.call('get', `${path()}?availableBelow=9000000001`)).body.error.code, 40001);
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

function path(workspace = records.workspaceId): string {
  return `/api/v1/workspace/${workspace}/customer-billings`;
}

async function listed(query: string, workspace?: string, limit = 1): Promise<Record<string, string>[]> {
  const read = (page: string) => world.call('get', `${path(workspace)}?${page}&${query}`);
  return (await readPages<Record<string, string>>(limit, read)).flat();
}
