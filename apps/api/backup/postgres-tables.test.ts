import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { emptyPostgres } from '../../../tests/helpers/world.ts';
import { connectPostgres, type Query } from '../../../shared/stores/postgres.ts';
import type { Part } from './archive.ts';
import { emptyTables, readPostgresTable, writePostgresPart } from './postgres-tables.ts';

const COLUMNS = ['id', 'answer', 'said'];
const LONG = 12;
const LONG_ROW_CHARACTERS = 1_000_000;

const sql = connectPostgres(await emptyPostgres('tables'), { max: 2, statementTimeoutMs: 0 });
test.after(() => sql.end());

test('however long rows are, a backup holds few of them at once, and a load writes each as it was', async () => {
  await sql`create table kept (id int, answer bytea, said json)`;
  await sql`create table loaded (like kept)`;
  // The long ones stand one after the other, between short ones.
  await sql`
    insert into kept
    select n, convert_to(repeat('é', case when n between 501 and ${500 + LONG} then ${LONG_ROW_CHARACTERS / 4} else n % 90 end), 'UTF8'),
      json_build_object('n', n, 'text', e'a\\nb\\\\n')
    from generate_series(1, 2500) n`;

  const parts: Part[] = [];
  let mostFetched = 0;
  await sql.begin(async (tx) => {
    const watched = watchCursors(tx, (characters) => (mostFetched = Math.max(mostFetched, characters)));
    for await (const part of readPostgresTable(watched, 'postgres/kept', COLUMNS)) parts.push(part);
    await emptyTables(tx, { 'postgres/loaded': COLUMNS });
    for (const { rows } of parts) await writePostgresPart(tx, { table: 'postgres/loaded', rows }, COLUMNS);
  });
  const lengths = parts.map(({ rows }) => rows.length);
  assert.ok(Math.max(...lengths) < 2 * LONG_ROW_CHARACTERS + 1.1 * LONG_ROW_CHARACTERS, lengths.join(', '));
  assert.ok(mostFetched > LONG_ROW_CHARACTERS && mostFetched < 4_000_000, `${mostFetched} characters at once`);

  const rows = (table: string) => sql`
    select id, md5(answer) as answer, said::text as said from ${sql(table)} order by id`;
  assert.equal([...(await rows('loaded'))], [...(await rows('kept'))]);
});

/** Tells how many characters each step of a cursor has fetched. */
function watchCursors(tx: Query, fetched: (characters: number) => void): Query {
  const watched = (first: TemplateStringsArray, ...rest: []) => {
    const query = tx(first, ...rest);
    const fetch = query.cursor as ((rowsAtOnce: number) => AsyncIterable<{ line: string }[]>) | undefined;
    if (!fetch) return query;
    const cursor = async function* (rowsAtOnce: number) {
      for await (const rows of fetch.call(query, rowsAtOnce)) {
        fetched(rows.reduce((characters, { line }) => characters + line.length, 0));
        yield rows;
      }
    };
    return Object.assign(query, { cursor });
  };
  return watched as unknown as Query;
}
