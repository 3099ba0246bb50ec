import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readParquet } from '../../../../tests/helpers/parquet.ts';
import { makeWorld, must, newWorkspace, refused } from '../../tests/helpers/calls.ts';

// More than one question to the books takes.
const RECORDS = 210;
// Of its own: no job is to look at hundreds of thousands of records.
const world = await makeWorld();
const workspaceId = await newWorkspace(world, { timezone: 'Asia/Kathmandu' });
await makeRecords(workspaceId, 1, RECORDS);

test('CSV and Parquet have one line for each record, the same ones, in Parquet as days and decimals', async () => {
  const csv = await (await get({ format: 'csv' })).text();
  const [header = '', ...lines] = csv.trimEnd().split('\r\n');
  const names = header.split(',');
  assert.is(lines.length, RECORDS);
  const start = `bill_${'2'.padStart(26, '0')},"'=m;2",2026-10-01,2026-10-31,Asia/Kathmandu,`;
  assert.ok(lines[1]!.startsWith(start), lines[1]);

  const answer = await get({ format: 'parquet' });
  assert.is(answer.headers.get('content-type'), 'application/vnd.apache.parquet');
  const { types, ask } = await readParquet(answer);
  assert.is(names.filter((name) => !otherTypes[name]).length, 16);
  const expected = names.map((name) => `${name} ${otherTypes[name] ?? 'Decimal(18, 6)'}`);
  assert.is(types.join().replaceAll(/Nullable\((\w+)\)/g, '$1'), expected.join());
  const rows = await ask('select * from answer order by billingId');
  assert.is(rows[1].externalMeterId, '=m;2');
  const textOf = (row: any) => names.map((name) => (name === 'externalMeterId' ? '' : row[name])).join();
  assert.is(rows.map(textOf).join('\n'), lines.join('\n').replaceAll(/"'=m;\d+"/g, ''));
  // Days instead of a month give the same lines, and other days others.
  const ofDays = async (from: string) => {
    const days = { month: '', from, to: '2026-10-31', format: 'csv' };
    return (await get(days)).text();
  };
  assert.is(await ofDays('2026-10-01'), csv);
  assert.is(await ofDays('2026-10-02'), csv.replaceAll(',2026-10-01,', ',2026-10-02,'));
});

test('a workspace without records has a file without lines', async () => {
  const empty = await newWorkspace(world);
  assert.is((await (await get({ format: 'csv', workspaceId: empty })).text()).split('\r\n').length, 2);
  const parquet = Buffer.from(await (await get({ format: 'parquet', workspaceId: empty })).arrayBuffer());
  assert.is(parquet.subarray(-4).toString(), 'PAR1');
});

test('a file of too many lines is refused, and its pages are not', async () => {
  const large = await newWorkspace(world);
  // Many rows are stored sooner without what keeps them unique and found.
  const kept = await world.sql<{ name: string }[]>`
    select conname as name from pg_constraint where conrelid = 'billing_records'::regclass and contype = 'u'`;
  for (const { name } of kept) await world.sql`alter table billing_records drop constraint ${world.sql(name)} cascade`;
  const indexes = await world.sql<{ name: string }[]>`
    select indexrelid::regclass::text as name from pg_index where indrelid = 'billing_records'::regclass and not indisprimary`;
  for (const { name } of indexes) await world.sql`drop index ${world.sql(name)}`;
  await makeRecords(large, RECORDS + 1, RECORDS + 200_001);
  for (const format of ['csv', 'parquet'])
    await refused(40060, world.call('get', path({ format, workspaceId: large })));
  const page = await must(200, world.call('get', path({ format: 'json', limit: '2', workspaceId: large })));
  const { statements, nextCursor } = page.body;
  assert.equal([statements.length, typeof nextCursor], [2, 'string']);
  assert.equal([statements[0].closingTotal, statements[0].proof], ['211.000211', 'PENDING']);
});

const texts = { billingId: 'String', externalMeterId: 'String', timezone: 'String', proof: 'String' };
const days = { from: 'Date32', to: 'Date32' };
const otherTypes: Record<string, string> = { ...texts, ...days, events: 'UInt64', closed: 'Bool' };

/** What is empty is not asked for. */
function path(query: Record<string, string>): string {
  const asked = Object.entries({ workspaceId, month: '2026-10', ...query }).filter(([, value]) => value !== '');
  return `/api/v1/statements?${new URLSearchParams(asked).toString()}`;
}

function get(query: Record<string, string>) {
  return fetch(world.api.url + path(query), { headers: { Authorization: `Bearer ${world.team.token}` } });
}

/**
 * Makes records with these numbers, in Postgres alone. Each has as many credits as its number, and a little more. Nothing counts them for
 * the team's quota, which would take long.
 */
async function makeRecords(workspace: string, first: number, last: number): Promise<void> {
  await world.sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages, created_at)
      select 'bill_' || lpad(i::text, 26, '0'), ${world.team.id}, ${workspace}, '=m;' || i, 0, i * 1000001::bigint, true, '2026-09-05'
      from generate_series(${first}::int, ${last}::int) i`;
  });
}
