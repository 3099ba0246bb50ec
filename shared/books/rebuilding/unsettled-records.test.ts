import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { rowsRead } from '../../../tests/helpers/postgres/rows-read.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';
import { ALL_SHARDS } from '../../values/key-text.ts';
import { markedDays } from '../sums/marked-days.ts';
import { noteUnsettled, removeSettled, takeUnsettled } from './unsettled-records.ts';

const RECORDS = 4_000;
const AT_ONCE = 200;
// Each row is looked up at most three times: to be taken, to be changed, and for its billing record.
const MOST_READ = 4 * AT_ONCE;
const TABLES = ['unsettled_records', 'billing_records', 'usage_marks'];

const world = await makeWorld([]);
// Its settler would take the notes away.
await world.api.stop();
const { sql, team } = world;
await sql.begin(async (tx) => {
  // Without the triggers that count them.
  await tx`set local session_replication_role = replica`;
  await tx`insert into workspaces (id, team_id, name) values ('ws_many', ${team.id}, 'many')`;
  await tx`
    insert into billing_records (id, team_id, workspace_id, external_meter_id, shard, total_micros, allow_overages)
    select 'bill_' || lpad(i::text, 8, '0'), ${team.id}, 'ws_many', i::text, i % 64, 0, false
    from generate_series(1, ${RECORDS}::int) as i`;
  await tx`insert into unsettled_records (billing_id, shard) select id, shard from billing_records`;
  await tx`insert into usage_marks (billing_id, day) select id, current_date from billing_records`;
});
await sql.unsafe('analyze billing_records; analyze unsettled_records; analyze usage_marks');

test('a page of notes is noted, taken and removed without a look at all the others', async () => {
  await world.sql.begin(async (tx) => {
    const costs: Record<string, number[]> = {};
    const counted = async <Result>(what: string, work: () => Promise<Result>): Promise<Result> => {
      let result: Promise<Result> | undefined;
      const run = () => (result ??= work());
      // The statistics of a transaction are its own, so each table is read around the same work.
      const [first, second, third] = TABLES as [string, string, string];
      const read: number[] = [];
      read[0] = await rowsRead(tx, first, async () => {
        read[1] = await rowsRead(tx, second, async () => {
          read[2] = await rowsRead(tx, third, run);
        });
      });
      costs[what] = read;
      return result!;
    };
    const taken = await counted('take', () => takeUnsettled(tx, [...ALL_SHARDS], AT_ONCE));
    assert.is(taken.length, AT_ONCE);
    const ids = taken.map(({ id }) => id);
    const marks = await counted('marked days', () => markedDays(tx, ids));
    assert.is(marks.size, AT_ONCE);
    await counted('note', () => noteUnsettled(tx, ids));
    await counted('remove', () => removeSettled(tx, taken));
    const [{ count }] = await tx<[{ count: number }]>`select count(*) from unsettled_records`;
    assert.is(count, RECORDS, 'noted again meanwhile, they stay');
    for (const [what, read] of Object.entries(costs))
      for (const [i, rows] of read.entries()) assert.ok(rows <= MOST_READ, `${what} reads ${rows} of ${TABLES[i]}`);
  });
});
