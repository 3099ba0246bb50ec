import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { connectPostgres, setTeam } from '../../../../shared/stores/postgres.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { rowsRead } from '../../../../tests/helpers/postgres/rows-read.ts';
import { emptyPostgres } from '../../../../tests/helpers/world.ts';
import { selectLines, type LinesQuery } from './list.ts';

// A team with a long audit log: each filter alone reads what it gives.

const LINES = 5_000;
const TAKE = 51;
const teamId = newId('team');
const sql = connectPostgres(await emptyPostgres('filters', 'keytally_template'), { max: 1, statementTimeoutMs: 0 });
await sql`insert into teams (id, name) values (${teamId}, 'long')`;
// Without their triggers, which would have them chained. A line a minute; the rare values are in the last one hundred.
await sql.begin(async (tx) => {
  await tx`set local session_replication_role = replica`;
  await tx`
    insert into audit_log (id, team_id, token_id, operation, resource, resource_id, after, request_id, address, outcome, error_code, attempts, created_at)
    select 'audit_' || id_time(at) || lpad(n::text, 16, '0'), ${teamId}, case when n > ${LINES - 60} then 'tok_rare' else 'tok_often' end,
           'POST /api/v1/scope', case when n > ${LINES - 60} then 'adjustment' else 'scope' end,
           'scope_' || n % 50, '{"name":"a scope of a workspace"}', 'req-' || n,
           case when n % 2 = 0 then '10.0.0.1' when n > ${LINES - 60} then '10.0.0.2' end, 'changed', null, null, at
    from generate_series(1, ${LINES}) as n, lateral (select timestamptz '2025-01-01' + n * interval '1 minute' as at) as times`;
});
await sql`analyze audit_log`;
test.after(() => sql.end());

type Filter = Omit<LinesQuery, 'teamId' | 'after'>;

/** The lines that the api reads for a filter, and how many it looks at. */
async function select(filter: Filter, take = TAKE) {
  return sql.begin(async (tx) => {
    await tx`set local role keytally_api`;
    // As of a table that is larger than this one.
    await tx`set local enable_seqscan = off`;
    await tx`set local enable_bitmapscan = off`;
    await setTeam(tx, teamId);
    let lines: { createdAt: Date }[] = [];
    const read = await rowsRead(tx, 'audit_log', async () => {
      lines = await selectLines(tx, { ...filter, teamId, after: '' }, take);
    });
    return { lines, read };
  });
}

test('each filter reads about as many lines as it gives, of 5,000 of one team', async () => {
  const filters: [Filter, number][] = [
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
    [{ from: '2025-01-03' }, TAKE],
    [{ from: '2030-01-01' }, 0],
    [{ from: '0001-01-01', to: '2024-12-31' }, 0],
    [{ to: '0001-01-01' }, 0],
    [{ from: '9999-12-31' }, 0],
  ];
  for (const [filter, gives] of filters)
    for (const order of ['oldest', 'newest'] as const) {
      const what = JSON.stringify({ ...filter, order });
      const { lines, read } = await select({ ...filter, order });
      assert.is(lines.length, gives, what);
      // An hour of lines around a day may be read as well.
      assert.ok(read <= gives + 130, `${what} read ${read} lines for ${gives}`);
    }
});

test('days bound the log to the line', async () => {
  for (const [day, first, last, count] of [
    ['2025-01-01', '2025-01-01T00:01:00.000Z', '2025-01-01T23:59:00.000Z', 1_439],
    ['2025-01-02', '2025-01-02T00:00:00.000Z', '2025-01-02T23:59:00.000Z', 1_440],
  ] as const) {
    const { lines } = await select({ from: day, to: day }, 2_000);
    const times = lines.map(({ createdAt }) => createdAt.toISOString());
    assert.equal([times[0], times.at(-1), times.length], [first, last, count]);
  }
});
