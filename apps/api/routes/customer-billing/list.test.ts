import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { makeCustomers, must, type Customers } from '../../../../tests/helpers/customers.ts';
import { inTime } from '../../../../tests/helpers/in-time.ts';
import { inLongForm } from '../../../../tests/helpers/long-form.ts';
import { eventually, makeWorld, once, type World } from '../../../../tests/helpers/world.ts';
import { billingsAfter, type BillingFilter } from '../../resources/billings/lists.ts';

const MANY = 20_000;
const test = suite('list of billing records');
const longTest = inLongForm(test);
let world: World;
let workspaceId: string;
let customers: Customers;
test.before(async () => {
  world = await makeWorld(['verify', 'consumer']);
  workspaceId = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body.workspace.id;
  customers = makeCustomers(world, workspaceId);
});
test.after(() => world?.stop());

test('a workspace lists its records in pages, each with the shape that it has alone', async () => {
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.push((await customers.billing(await customers.newMeter({ totalCredits: '5' }))).id);
  const found: string[] = [];
  let cursor = '';
  do {
    const page = await list(`limit=2${cursor && `&cursor=${cursor}`}`);
    assert.ok(page.billings.length <= 2);
    found.push(...page.billings.map(({ id }: { id: string }) => id));
    cursor = page.nextCursor ?? '';
  } while (cursor);
  assert.equal(found, ids);
  const [first] = (await list('limit=1')).billings;
  assert.equal(first, (await must(200, world.call('get', `/api/v1/customer-billing/${ids[0]}`))).body.billing);
});

test('a list is narrowed to a meter, and to the records that keys of a customer draw on', async () => {
  const [one, two, other] = [await customers.newMeter({}), await customers.newMeter({}), await customers.newMeter({})];
  for (const externalMeterId of [one, one, two]) await customers.newKey({ externalMeterId, customerId: 'cus.7' });
  await customers.newKey({ externalMeterId: other, customerId: 'cus.8' });
  const long = await Promise.all([1, 2].map((i) => customers.newMeter({ externalMeterId: '€'.repeat(255) + i })));
  for (const externalMeterId of long) await customers.newKey({ externalMeterId, customerId: 'cus.9' });
  await customers.newKey({ customerId: 'cus.7' });
  const meters = async (query: string) => (await pagesOf(query)).map(({ externalMeterId }) => externalMeterId);
  assert.equal(await meters(`externalMeterId=${two}`), [two]);
  assert.equal(await meters('customerId=cus.7'), [one, two].toSorted());
  assert.equal(await meters(`customerId=cus.7&externalMeterId=${two}`), [two]);
  assert.equal(await meters('customerId=cus.9'), long);
  assert.equal(await meters('customerId=nobody'), []);
  assert.is((await world.call('get', `${path()}?availableBelow=9000000001`)).body.error.code, 40001);
});

test('soon a list has what was used, held, granted and expired', async () => {
  const plain = await customers.meteredKey('10');
  const { id, ...account } = await inTime(4_000, async (expiresAt) => {
    const { key, meter } = await customers.meteredKey('10');
    const { id } = await customers.billing(meter);
    const headers = once();
    const grant = { credits: '3', expiresAt, priority: 90 };
    await must(201, world.call('post', `/api/v1/customer-billing/${id}/grant`, grant, { headers }));
    return { id, key, meter };
  });
  await must(200, customers.verify({ key: plain.key, billing: { usage: '2.5' } }));
  const holding = { key: account.key, billing: { usage: '4', hold: { expiresIn: 3600 } } };
  const headers = once();
  const hold = () => customers.verify(holding, { headers });
  await eventually('the keys of holds are there', async () => (await hold()).status === 200);
  await eventually('the list has it', async () => {
    const [a] = (await list(`externalMeterId=${plain.meter}`)).billings;
    const [b] = (await list(`externalMeterId=${account.meter}`)).billings;
    const known = [
      a.usedCredits,
      a.availableCredits,
      b.totalCredits,
      b.heldCredits,
      b.expiredCredits,
      b.availableCredits,
    ];
    return known.join() === '2.5,7.5,13,4,3,6';
  });
  const few = (await list('availableBelow=6.000001')).billings.map((one: { id: string }) => one.id);
  assert.ok(few.includes(id));
  assert.not((await list('availableBelow=6')).billings.some((one: { id: string }) => one.id === id));
});

longTest('of a workspace with many records, a page reads its own rows, whatever it is narrowed to', async () => {
  const workspace = await world.newWorkspace(world.team.id);
  await world.sql`
    insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, used_micros, allow_overages)
    select 'bill_' || lpad(i::text, 26, '0'), ${world.team.id}, ${workspace}, 'm' || i, 0, i, i * ${MANY} % 7919, true
    from generate_series(1, ${MANY}::int) i`;
  await world.sql`
    insert into api_keys (id, team_id, workspace_id, shard, name, prefix, masked_key, enabled, customer_id, external_meter_id)
    select 'key_' || lpad(i::text, 26, '0'), ${world.team.id}, ${workspace}, 0, 'k', 'k', '', true, 'c', 'm' || i / 100
    from generate_series(1, ${MANY}::int) i`;
  await world.sql`analyze billing_records, api_keys`;
  const none = { workspaceId: workspace, externalMeterId: undefined, customerId: undefined, belowMicros: undefined };
  for (const narrowed of [
    {},
    { belowMicros: 9_000 },
    { belowMicros: -100 },
    { customerId: 'c' },
    { externalMeterId: 'm77' },
  ]) {
    const { rows, read } = await readWith({ ...none, ...narrowed });
    assert.is(rows, 'externalMeterId' in narrowed ? 1 : 20, JSON.stringify(narrowed));
    assert.ok(read <= 200, `${JSON.stringify(narrowed)} read ${read} rows`);
  }
  const below = (await pagesOf('availableBelow=0.0005&limit=200', workspace)).map(({ availableCredits }) =>
    Number(availableCredits),
  );
  assert.ok(below.length > 500);
  assert.equal(
    below,
    below.toSorted((a, b) => a - b),
  );
  const [{ count }] = await world.sql<[{ count: number }]>`
    select count(*) as count from billing_records where workspace_id = ${workspace} and total_micros - used_micros < 500`;
  assert.is(below.length, count);
});

test.run();

function path(workspace = workspaceId): string {
  return `/api/v1/workspace/${workspace}/customer-billings`;
}

async function list(query: string, workspace = workspaceId) {
  return (await must(200, world.call('get', `${path(workspace)}?${query}`))).body;
}

type Listed = { externalMeterId: string; availableCredits: string };

async function pagesOf(query: string, workspace = workspaceId): Promise<Listed[]> {
  const all: Listed[] = [];
  for (let cursor = ''; ;) {
    const page = await list(
      `limit=1&${query}${cursor && `&cursor=${cursor}`}`.replace(/limit=1&(.*limit=)/, '$1'),
      workspace,
    );
    all.push(...page.billings);
    if (!page.nextCursor) return all;
    cursor = page.nextCursor;
  }
}

/** How many records the second page of 20 has, and how many rows of both tables it read. */
async function readWith(filter: BillingFilter): Promise<{ rows: number; read: number }> {
  const first = filter.externalMeterId === undefined ? await billingsAfter(world.sql, filter, '', 20) : [];
  return world.sql.begin(async (tx) => {
    const readRows = async () => {
      const [row] = await (tx as Query)<[{ read: number }]>`
        select sum(seq_tup_read + idx_tup_fetch)::bigint as read from pg_stat_xact_user_tables
        where relname in ('billing_records', 'api_keys')`;
      return row.read;
    };
    const before = await readRows();
    const rows = await billingsAfter(tx, filter, first.at(-1)?.id ?? '', 20);
    return { rows: rows.length, read: (await readRows()) - before };
  });
}
