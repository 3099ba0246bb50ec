import { rejects } from 'node:assert/strict';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newId } from '../../../shared/values/ids.ts';
import { asTeam, connectPostgres, setTeam, type Sql, type Transaction } from '../../../shared/stores/postgres.ts';
import { urlOfApi } from './helpers/own-api.ts';
import { callsOf, makeWorld, once } from './helpers/calls.ts';

// Postgres keeps teams apart too, in case a query forgets its own condition.

const world = await makeWorld();
const asApi = connectPostgres(urlOfApi(world), { max: 1 });
const everyTeam = connectPostgres(urlOfApi(world), { max: 1, everyTeam: true });
const other = await world.newTeam();
for (const { token } of [world.team, other]) await fill(token);
test.after(async () => void (await Promise.all([asApi.end(), everyTeam.end()])));

test('a query without its team filter sees the rows of the team that it runs for, and no others', async () => {
  for (const name of ['teams', 'workspaces', 'api_keys', 'credit_ledger', 'audit_log']) {
    const column = name === 'teams' ? 'id' : 'team_id';
    const teamsIn = async (sql: Sql | ReturnType<typeof asTeam>) => {
      const rows = await sql<{ team: string }[]>`select distinct ${sql(column)} as team from ${sql(name)}`;
      return rows.map((row) => row.team).toSorted();
    };
    const all = [world.team.id, other.id].toSorted();
    assert.equal([await teamsIn(world.sql), await teamsIn(everyTeam)], [all, all], name);
    assert.equal(await teamsIn(asTeam(asApi, other.id)), [other.id], name);
    assert.equal(await teamsIn(asApi), [], `${name}, for no team at all`);
  }
});

test('a change without its team filter changes rows of its own team only, and creates none for another', async () => {
  const asOther = <Result>(change: (tx: Transaction) => Promise<Result>) =>
    asApi.begin(async (tx) => {
      await setTeam(tx, other.id);
      return change(tx);
    });
  const renamed = await asOther((tx) => tx`update workspaces set name = 'renamed' returning team_id`);
  assert.equal([...renamed], [{ teamId: other.id }]);
  for (const change of [
    (tx: Transaction) => tx`insert into workspaces (id, team_id, name) values ('ws_p', ${world.team.id}, 'planted')`,
    (tx: Transaction) => tx`update workspaces set team_id = ${world.team.id}`,
  ])
    await rejects(() => asOther(change), /row-level security/);
});

test("the team of a transaction ends with it, and a team's read-only connection cannot write", async () => {
  // One connection: a leftover of the first transaction would show in the second.
  assert.is((await asTeam(asApi, other.id)`select id from workspaces`).length, 1);
  assert.is((await asApi`select id from workspaces`).length, 0);
  await rejects(async () => asTeam(asApi, other.id)`update workspaces set name = 'x'`, /read-only transaction/);
});

test('each table with rows of teams has that one policy for the api; no row can point into another team, not even one that the operator writes: each reference between two such tables includes the team', async () => {
  const unguarded = await world.sql`
    select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'team_id'
    where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace
      and not (c.relrowsecurity and array['is_of_team(team_id) ALL'] = array(
        select qual || ' ' || cmd from pg_policies p where p.tablename = c.relname and permissive = 'PERMISSIVE'
          and roles && array['keytally_api', 'public']::name[]))`;
  assert.equal([...unguarded], []);
  const loose = await world.sql`
    select k.conname as name from pg_constraint k
    where k.contype = 'f' and k.connamespace = 'public'::regnamespace and k.confrelid <> 'teams'::regclass
      and not exists (select from pg_attribute a
                      where a.attrelid = k.conrelid and a.attnum = any(k.conkey) and a.attname = 'team_id')`;
  assert.equal([...loose], []);
  const [theirs] = await world.sql<[{ id: string }]>`select id from workspaces where team_id = ${other.id}`;
  const ours = world.team.id;
  const { sql } = world;
  await rejects(() => sql`update api_keys set workspace_id = ${theirs.id} where team_id = ${ours}`, /foreign key/);
  // A list is no reference.
  const list = () => sql`update access_tokens set workspace_ids = ${[theirs.id]} where team_id = ${ours}`;
  await rejects(list, /not of its team/);
});

test('the api can add audit lines for the team of its transaction alone, none in the past, and change none', async () => {
  const add = (session: string, team: string, more: object = {}) =>
    asApi.begin(async (tx) => {
      await setTeam(tx, session);
      const [token] = await tx<{ id: string }[]>`select id from access_tokens where team_id = ${team} limit 1`;
      const line = { id: newId('audit'), teamId: team, tokenId: token?.id ?? null, operation: 'o', ...more };
      await tx`insert into audit_log ${tx({ ...line, resource: 'scope', resourceId: 'planted' })}`;
    });
  await rejects(() => add(other.id, world.team.id, { tokenId: null }), /row-level security/);
  await rejects(() => add('*', world.team.id), /row-level security/);
  await rejects(() => add(other.id, other.id, { id: 'audit_1' }), /another form/);
  const early = { id: 'audit_0000000000e008000000000000', createdAt: new Date(0) };
  await add(other.id, other.id, early);
  const [line] = await world.sql<[{ id: string; createdAt: Date }]>`
    select id, created_at from audit_log where resource_id = 'planted'`;
  const [{ newest }] = await world.sql<[{ newest: string }]>`select max(id) as newest from audit_log`;
  assert.is(line.id, newest, 'its id is the newest one, whatever it said');
  assert.ok(Date.now() - line.createdAt.getTime() < 60_000, 'its time is that of Postgres');
  for (const table of ['audit_chain', 'audit_unchained'])
    assert.is((await asTeam(asApi, other.id)`select from ${asApi(table)}`).length, 0, `${table} is of no team`);
  const [can] = await world.sql`
    select has_table_privilege('keytally_api', 'audit_unchained', 'insert, update, delete') as unchained,
           has_table_privilege('keytally_api', 'audit_chain', 'insert, update, delete, truncate') as chain`;
  assert.equal(can, { unchained: false, chain: false });
  await rejects(() => world.sql`update audit_chain set line_id = 'x'`, /only ever added to/);
});

test('nobody changes or removes an adjustment, or a line of the ledger or of the audit log', async () => {
  const columns = { adjustments: 'amount_micros', credit_ledger: 'amount_micros', audit_log: 'attempts' };
  for (const [table, column] of Object.entries(columns))
    for (const statement of [`update ${table} set ${column} = 1`, `delete from ${table}`, `truncate ${table} cascade`])
      await rejects(() => world.sql.unsafe(statement), /only ever added to/);
});

test("the programs' database roles have no more rights than they need", async () => {
  const can = async (role: string, table: string) => {
    const rows = await world.sql<{ granted: string }[]>`
      select granted from unnest(array['select', 'insert', 'update', 'delete', 'truncate']) with ordinality as u (granted, n)
      where has_table_privilege(${role}, ${table}, granted) order by n`;
    return rows.map((row) => row.granted);
  };
  for (const table of ['credit_ledger', 'adjustments', 'audit_log'])
    assert.equal(await can('keytally_api', table), ['select', 'insert'], table);
  assert.equal(await can('keytally_api', 'api_keys'), ['select', 'insert', 'update']);
  assert.equal(await can('keytally_api', 'team_usage'), ['select'], 'triggers count');
  assert.equal(await can('keytally_consumer', 'api_keys'), ['select']);
  for (const table of ['teams', 'access_tokens', 'signing_keys', 'key_texts'])
    assert.equal(await can('keytally_consumer', table), [], `the consumer and ${table}`);
  // It closes months.
  for (const table of ['credit_ledger', 'adjustments'])
    assert.equal(await can('keytally_consumer', table), ['select'], `the consumer and ${table}`);
  const [powers] = await world.sql`
    select count(*)::int as n from pg_roles
    where rolname in ('keytally_api', 'keytally_consumer')
      and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication)`;
  assert.is(powers!.n, 0);
});

async function fill(token: string): Promise<void> {
  const { make, post } = callsOf(world, token);
  const workspaceId = (await make('/api/v1/workspace', { name: 'w' })).id;
  await make(`/api/v1/workspace/${workspaceId}/scope`, { name: 's', representation: 'documents' });
  const meter = { workspaceId, externalMeterId: 'm' };
  const { id } = await make('/api/v1/customer-billing', meter);
  await make(`/api/v1/customer-billing/${id}/adjustment`, { amount: '1', reason: 'r' }, once());
  await post('/api/v1/customer-billing/refill', { ...meter, refill: 1 }, once());
  await make('/api/v1/api-key', { name: 'k', ...meter, scopes: [{ representation: 'documents', read: true }] });
}
