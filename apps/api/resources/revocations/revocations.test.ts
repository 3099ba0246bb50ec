import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectPostgres, type Query, type Transaction } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { makeWorld } from '../../../../tests/helpers/world.ts';
import { revokeNextBelow, revokeToken } from './revocations.ts';

let statements = 0;
const world = await makeWorld();
const sql = connectPostgres(world.env.DATABASE_URL!, { max: 1, statementTimeoutMs: 0 });
sql.options.debug = () => void (statements += 1);
test.after(() => sql.end());

test('a line of 700 tokens, each made by the one before, is revoked in few statements', async () => {
  const { id: teamId } = await world.newTeam();
  const ids = newIds(701);
  await store(
    teamId,
    ids.map((id, i) => ({ id, createdBy: ids[i - 1] ?? null })),
  );
  await sql.begin(async (tx) => {
    statements = 0;
    const { below, pending } = await revokeToken(tx, ids[0]!, originOf(teamId));
    assert.equal([below.length, pending], [500, true]);
    assert.equal(new Set(below.map(({ id }) => id)), new Set(ids.slice(1, 501)), 'the nearest ones first');
    const rest = await revokeNextBelow(tx, await revocationOf(tx, teamId), 500);
    assert.equal([rest.rows.length, rest.done], [200, true]);
    assert.ok(statements <= 16, `${statements} statements`);
    assert.equal(await leftOf(tx, teamId), { unrevoked: 0, toExpand: 0 });
  });
});

test('broad and deep lines are revoked whole, page by page, and none twice', async () => {
  const { id: teamId } = await world.newTeam();
  const root = newId('tok');
  const children = newIds(120).map((id) => ({ id, createdBy: root }));
  const grandchildren = children.flatMap(({ id }) => newIds(3).map((one) => ({ id: one, createdBy: id })));
  const deep = newIds(40);
  const line = deep.map((id, i) => ({ id, createdBy: deep[i - 1] ?? grandchildren[7]!.id }));
  await store(teamId, [{ id: root, createdBy: null }, ...children, ...grandchildren, ...line]);
  await sql.begin(async (tx) => {
    const { below } = await revokeToken(tx, root, originOf(teamId), { atMost: 70 });
    const revoked = below.map(({ id }) => id);
    const revocation = await revocationOf(tx, teamId);
    for (let isDone = false; !isDone;) {
      const { rows, done } = await revokeNextBelow(tx, revocation, 70);
      revoked.push(...rows.map(({ id }) => id));
      isDone = done;
    }
    assert.is(revoked.length, 120 + 360 + 40);
    assert.is(new Set(revoked).size, revoked.length);
    assert.equal(await leftOf(tx, teamId), { unrevoked: 0, toExpand: 0 });
  });
});

function newIds(count: number): string[] {
  return Array.from({ length: count }, () => newId('tok'));
}

function originOf(teamId: string) {
  return { teamId, tokenId: null, operation: 'test', requestId: null };
}

async function store(teamId: string, tokens: { id: string; createdBy: string | null }[]): Promise<void> {
  const rows = tokens.map(({ id, createdBy }) => ({
    id,
    teamId,
    name: 'stored',
    hash: id,
    maskedToken: '',
    shard: 7,
    permissions: [],
    createdBy,
  }));
  await sql`insert into access_tokens ${sql(rows)}`;
}

async function revocationOf(tx: Transaction, teamId: string): Promise<number> {
  const [row] = await tx<[{ id: number }]>`select id from revocations where team_id = ${teamId}`;
  return row.id;
}

async function leftOf(tx: Query, teamId: string) {
  const [row] = await tx<[{ unrevoked: number; toExpand: number }]>`
    select count(*) filter (where revoked_at is null) as unrevoked, count(revocation_id) as to_expand
    from access_tokens where team_id = ${teamId} and name = 'stored'`;
  return { ...row };
}
