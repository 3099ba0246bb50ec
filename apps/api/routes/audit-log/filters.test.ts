import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connectPostgres, setTeam } from '../../../../shared/stores/postgres.ts';
import { rowsRead } from '../../../../tests/helpers/postgres/rows-read.ts';
import { makeWorld, type World } from '../../../../tests/helpers/world.ts';
import { must } from '../../../../tests/helpers/customers.ts';
import { selectLines, type LinesQuery } from './list.ts';

// A team with a long audit log: each filter alone reads what it gives.

const LINES = 100_000;
const TAKE = 51;
let world: World;
const test = suite('filters of the audit log');
test.before(async () => {
  world = await makeWorld();
  // Without their triggers, which would have them chained. A line a minute; the rare values are in the last one hundred.
  const unlimited = connectPostgres(world.env.DATABASE_URL!, { max: 1, statementTimeoutMs: 0 });
  await unlimited.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into audit_log (id, team_id, token_id, operation, resource, resource_id, after, request_id, address, outcome, error_code, attempts, created_at)
      select 'audit_' || id_time(at) || lpad(n::text, 16, '0'), ${world.team.id}, case when n > ${LINES - 60} then 'tok_rare' else 'tok_often' end,
             'POST /api/v1/scope', case when n > ${LINES - 60} then 'adjustment' else 'scope' end,
             'scope_' || n % 1000, '{"name":"a scope of a workspace"}', 'req-' || n,
             case when n % 2 = 0 then '10.0.0.1' when n > ${LINES - 60} then '10.0.0.2' end, 'changed', null, null, at
      from generate_series(1, ${LINES}) as n, lateral (select timestamptz '2025-01-01' + n * interval '1 minute' as at) as times`;
  });
  await unlimited.end();
  await world.sql`analyze audit_log`;
});
test.after(() => world?.stop());

test('each filter reads about as many lines as it gives, of 100,000 of one team', async () => {
  const url = new URL(process.env.TEST_API_POSTGRES_URL!);
  url.pathname = new URL(world.env.DATABASE_URL!).pathname;
  const sql = connectPostgres(url.href, { max: 1, statementTimeoutMs: 0 });
  const filters: [Omit<LinesQuery, 'teamId' | 'after'>, number][] = [
    [{}, TAKE],
    [{ tokenId: 'tok_rare' }, TAKE],
    [{ tokenId: 'tok_often' }, TAKE],
    [{ tokenId: 'tok_none' }, 0],
    [{ resource: 'adjustment' }, TAKE],
    [{ resource: 'scope' }, TAKE],
    [{ resource: 'workspace' }, 0],
    [{ address: '10.0.0.2' }, 30],
    [{ address: '10.0.0.1' }, TAKE],
    [{ address: '10.0.0.3' }, 0],
    [{ resourceId: 'scope_7' }, TAKE],
    [{ requestId: `req-${LINES}` }, 1],
    [{ outcome: 'denied' }, 0],
    [{ from: '2025-03-10' }, TAKE],
    [{ from: '2030-01-01' }, 0],
    [{ from: '0001-01-01', to: '2024-12-31' }, 0],
    [{ to: '0001-01-01' }, 0],
    [{ from: '9999-12-31' }, 0],
  ];
  try {
    for (const [filter, gives] of filters.flatMap(([one, n]) => [
      [one, n] as const,
      [{ ...one, order: 'newest' as const }, n] as const,
    ]))
      await sql.begin(async (tx) => {
        await setTeam(tx, world.team.id);
        let given = 0;
        const read = await rowsRead(tx, 'audit_log', async () => {
          given = (await selectLines(tx, { ...filter, teamId: world.team.id, after: '' }, TAKE)).length;
        });
        assert.is(given, gives, JSON.stringify(filter));
        // An hour of lines around a day may be read as well.
        assert.ok(read <= given + 130, `${JSON.stringify(filter)} read ${read} lines for ${given}`);
      });
  } finally {
    await sql.end();
  }
});

test('days bound the log to the line', async () => {
  const days = async (from: string, to: string) => {
    const answer = await must(200, world.call('get', `/api/v1/audit-log?from=${from}&to=${to}&limit=200`));
    return answer.body.auditLog.map((line: { createdAt: string }) => line.createdAt) as string[];
  };
  const first = await days('2025-01-02', '2025-01-02');
  assert.equal([first.length, first[0]], [200, '2025-01-02T00:00:00.000Z']);
  assert.equal((await days('2025-01-01', '2025-01-01'))[0], '2025-01-01T00:01:00.000Z');
  assert.is((await days('2025-03-11', '2025-03-11')).at(-1), '2025-03-11T03:19:00.000Z');
});

test.run();
