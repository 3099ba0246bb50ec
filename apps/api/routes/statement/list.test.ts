import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';

// More than one question to the books takes.
const RECORDS = 650;
let world: World;
let books: ClickHouseClient;
let workspaceId: string;
const test = suite('statements of a workspace');
test.before(async () => {
  world = await makeWorld();
  books = createClient({ url: world.env.CLICKHOUSE_URL! });
  workspaceId = (await world.call('post', '/api/v1/workspace', { name: 'w', timezone: 'Asia/Kathmandu' })).body
    .workspace.id;
  await makeRecords(workspaceId, 1, RECORDS);
});
test.after(async () => {
  await books?.close();
  await world?.stop();
});

test('CSV and Parquet have one line for each record, the same ones, in Parquet as days and decimals', async () => {
  const csv = await get('csv');
  const [names = '', ...lines] = (await csv.text()).trimEnd().split('\r\n');
  assert.ok(names.startsWith('billingId,externalMeterId,from,to,timezone,openingTotal,'), names);
  assert.is(lines.length, RECORDS);
  assert.ok(
    lines[1]!.startsWith(`bill_${'2'.padStart(26, '0')},"'=m;2",2026-10-01,2026-10-31,Asia/Kathmandu,`),
    lines[1],
  );

  mkdirSync(process.env.TEST_FOLDER!, { recursive: true });
  const file = join(process.env.TEST_FOLDER!, 'statements.parquet');
  const answer = await get('parquet');
  assert.is(answer.headers.get('content-type'), 'application/vnd.apache.parquet');
  writeFileSync(file, Buffer.from(await answer.arrayBuffer()));
  const types = (await read(`describe file('${file}', Parquet)`)).map(({ name, type }) => `${name} ${type}`);
  const amounts = names.split(',').filter((name) => !otherTypes[name]);
  assert.is(amounts.length, 14);
  const wanted = names.split(',').map((name) => `${name} ${otherTypes[name] ?? 'Decimal(18, 6)'}`);
  assert.equal(
    types.map((type) => type.replace(/Nullable\((.*)\)$/, '$1')),
    wanted,
  );
  const rows = await read(`select * from file('${file}', Parquet) order by billingId`);
  assert.equal(
    rows.map((row) =>
      names
        .split(',')
        .map((name) => (name === 'externalMeterId' ? '' : row[name]))
        .join(),
    ),
    lines.map((line) => line.replace(/"'=m;\d+"/, '')),
  );
  assert.is(rows[1].externalMeterId, '=m;2');
});

test('days instead of a month give the same lines, and other days others', async () => {
  const text = async (days: object) => {
    const query = new URLSearchParams({ workspaceId, format: 'csv', ...days }).toString();
    const headers = { Authorization: `Bearer ${world.team.token}` };
    return (await fetch(`${world.api.url}/api/v1/statements?${query}`, { headers })).text();
  };
  const month = await text({ month: '2026-10' });
  assert.is(await text({ from: '2026-10-01', to: '2026-10-31' }), month);
  assert.is(await text({ from: '2026-10-02', to: '2026-10-31' }), month.replaceAll(',2026-10-01,', ',2026-10-02,'));
});

test('a workspace without records has a file without lines, and one of another team none', async () => {
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'empty' })).body;
  assert.is((await (await get('csv', workspace.id)).text()).split('\r\n').length, 2);
  const parquet = Buffer.from(await (await get('parquet', workspace.id)).arrayBuffer());
  assert.is(parquet.subarray(-4).toString(), 'PAR1');
  const other = await world.newWorkspace((await world.newTeam()).id);
  assert.is((await get('parquet', other)).status, 403);
});

test('a file of too many lines is refused, and its pages are not', async () => {
  const { workspace } = (await world.call('post', '/api/v1/workspace', { name: 'large' })).body;
  const [first, last] = [RECORDS + 1, RECORDS + 200_001];
  for (let from = first; from <= last; from += 20_000)
    await makeRecords(workspace.id, from, Math.min(last, from + 19_999));
  for (const format of ['csv', 'parquet']) {
    const refused = await world.call('get', path(format, workspace.id));
    assert.equal([refused.status, refused.body.error.code], [400, 40060]);
  }
  const { statements, nextCursor } = (await world.call('get', `${path('json', workspace.id)}&limit=2`)).body;
  assert.equal([statements.length, typeof nextCursor], [2, 'string']);
  assert.equal([statements[0].closingTotal, statements[0].proof], ['651.000651', 'PENDING']);
});

test.run();

const otherTypes: Record<string, string> = {
  billingId: 'String',
  externalMeterId: 'String',
  from: 'Date32',
  to: 'Date32',
  timezone: 'String',
  events: 'UInt64',
  proof: 'String',
  closed: 'Bool',
};

function path(format: string, workspace: string): string {
  return `/api/v1/statements?${new URLSearchParams({ workspaceId: workspace, month: '2026-10', format }).toString()}`;
}

function get(format: string, workspace = workspaceId) {
  return fetch(world.api.url + path(format, workspace), { headers: { Authorization: `Bearer ${world.team.token}` } });
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

async function read(query: string): Promise<any[]> {
  return (await books.query({ query, format: 'JSONEachRow' })).json();
}
