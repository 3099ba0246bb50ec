import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { copyRecentUse } from '../../../consumer/jobs/recent-use.ts';
import { connectClickHouse } from '../../../../shared/stores/clickhouse.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { passTime } from '../../../../tests/helpers/pass-time.ts';
import { rowsRead } from '../../../../tests/helpers/postgres/rows-read.ts';
import { connectRedisOf } from '../../../../tests/helpers/world-redis.ts';
import { joinWorld, once, type World } from '../../../../tests/helpers/world.ts';
import { billingsAfter } from '../../resources/billings/lists.ts';

const HOUR = 3_600_000;
const MANY = 4_000;
const test = suite('list of billing records');
let world: World;
let workspaceId: string;
let customers: Customers;
test.before(async () => {
  world = await joinWorld();
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(() => world?.stop());

test('a workspace lists its records in pages, each with the shape that it has alone', async () => {
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.push((await customers.billing(await customers.newMeter({ totalCredits: '5' }))).id);
  const found = await pagesOf('limit=2');
  assert.equal(
    found.map(({ id }) => id),
    ids,
  );
  assert.equal(found[0], (await must(200, world.call('get', `/api/v1/customer-billing/${ids[0]}`))).body.billing);
});

test('a list is narrowed to a meter, and to the records that keys of a customer draw on', async () => {
  const [one, two, other] = [await customers.newMeter({}), await customers.newMeter({}), await customers.newMeter({})];
  for (const externalMeterId of [one, one, two]) await customers.newKey({ externalMeterId, customerId: 'cus.7' });
  await customers.newKey({ externalMeterId: other, customerId: 'cus.8' });
  const long = await Promise.all([1, 2].map((i) => customers.newMeter({ externalMeterId: '€'.repeat(255) + i })));
  for (const externalMeterId of long) await customers.newKey({ externalMeterId, customerId: 'cus.9' });
  await customers.newKey({ customerId: 'cus.7' });
  const meters = async (query: string) =>
    (await pagesOf(`limit=1&${query}`)).map(({ externalMeterId }) => externalMeterId);
  assert.equal(await meters(`externalMeterId=${two}`), [two]);
  assert.equal(await meters('customerId=cus.7'), [one, two].toSorted());
  assert.equal(await meters(`customerId=cus.7&externalMeterId=${two}`), [two]);
  assert.equal(await meters('customerId=cus.9'), long);
  assert.equal(await meters('customerId=nobody'), []);
  assert.is((await world.call('get', `${path()}?availableBelow=9000000001`)).body.error.code, 40001);
});

test('soon a list has what was used, held, granted and expired', async () => {
  const plain = await customers.meteredKey('10');
  const { key, meter } = await customers.meteredKey('10');
  const { id } = await customers.billing(meter);
  const grant = { credits: '3', expiresAt: Date.now() + HOUR / 2, priority: 90 };
  await must(201, world.call('post', `/api/v1/customer-billing/${id}/grant`, grant, { headers: once() }));
  await must(200, customers.verify({ key: plain.key, billing: { usage: '2.5' } }));
  await customers.hold({ key }, '4', { expiresIn: 3600 });
  const [redis, books] = [await connectRedisOf(world), connectClickHouse(world.env.CLICKHOUSE_URL!)];
  await passTime(world, redis, id, 0.75 * HOUR);
  await world.booked();
  await copyRecentUse({ sql: world.sql, books }, new AbortController().signal);
  await Promise.all([redis.close(), books.close()]);

  const [a] = await pagesOf(`externalMeterId=${plain.meter}`);
  assert.equal([a!.usedCredits, a!.availableCredits], ['2.5', '7.5']);
  const [b] = await pagesOf(`externalMeterId=${meter}`);
  assert.equal([b!.totalCredits, b!.heldCredits, b!.expiredCredits, b!.availableCredits], ['13', '4', '3', '6']);
  const few = async (below: string) => (await pagesOf(`availableBelow=${below}`)).some((one) => one.id === id);
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
      const records = await rowsRead(tx, 'billing_records', async () => {
        read = await rowsRead(tx, 'api_keys', page);
      });
      assert.is(rows, 20, JSON.stringify(narrowed));
      assert.ok(records + read <= 200, `${JSON.stringify(narrowed)} read ${records + read} rows`);
    });
  }
  const below = (await pagesOf('availableBelow=0.0002&limit=200', workspace)).map((one) =>
    Number(one.availableCredits),
  );
  assert.equal(
    below,
    below.toSorted((a, b) => a - b),
  );
  const [{ count }] = await world.sql<[{ count: number }]>`
    select count(*) as count from billing_records where workspace_id = ${workspace} and total_micros - used_micros < 200`;
  assert.is(below.length, count);
  assert.ok(count > 200);
});

test.run();

function path(workspace = workspaceId): string {
  return `/api/v1/workspace/${workspace}/customer-billings`;
}

async function pagesOf(query: string, workspace = workspaceId): Promise<Record<string, string>[]> {
  const all: Record<string, string>[] = [];
  for (let cursor = ''; cursor !== undefined;) {
    const { body } = await must(200, world.call('get', `${path(workspace)}?${query}${cursor && `&cursor=${cursor}`}`));
    all.push(...body.billings);
    cursor = body.nextCursor;
  }
  return all;
}
