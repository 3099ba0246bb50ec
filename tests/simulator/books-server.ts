import { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import type { ClickHouseClient } from '@clickhouse/client';
import { Session } from 'chdb';
import type { Books } from '../../shared/stores/clickhouse.ts';
import { clickHouseStatements } from '../../shared/stores/migrate.ts';
import type { Process, Simulation } from './simulation.ts';

type Asked = { query: string; query_params?: Record<string, unknown>; format?: string };
export type BooksServer = ReturnType<typeof makeBooksServer>;

// As connectClickHouse sets them; and a few rows are read and written faster by one thread, without code compiled for them.
const SETTINGS =
  'output_format_json_quote_64bit_integers = 1, do_not_merge_across_partitions_select_final = 1, max_threads = 1, ' +
  'compile_expressions = 0, compile_aggregate_expressions = 0, compile_sort_description = 0, ' +
  "local_filesystem_read_method = 'read', input_format_parallel_parsing = 0, optimize_on_insert = 0";

/**
 * A ClickHouse whose life is simulated: queries run on its engine, by the clock of the simulation. The engine is in this process: a
 * query over HTTP would cost twice as much. Nothing there outlives the process, so nothing waits for its disk.
 */
export function makeBooksServer(folder: string) {
  const session = new Session(folder);
  for (const statement of clickHouseStatements('books', ''))
    session.query(statement.replaceAll(/(fsync_\w+) = 1/g, '$1 = 0').replaceAll(/table if not exists /g, '$&books.'));
  session.query(`use books`);
  session.query(`set ${SETTINGS}`);
  session.query('system stop merges');
  let simulation: Simulation;

  function run({ query, query_params = {}, format = 'JSONEachRow' }: Asked): string[] {
    const params = Object.entries(query_params).map(([name, value]) => `param_${name} = ${quoted(asParam(value))}`);
    if (params.length > 0) session.query(`set ${params.join(', ')}`);
    const text = session.query(query.replaceAll('now64(3)', `fromUnixTimestamp64Milli(${simulation.nowMs()})`), format);
    return simulation.inSomeOrder(query, text.split('\n').slice(0, -1), (line) => line);
  }

  return {
    /** What the simulation itself reads of it. */
    real: { client: { query: async (asked: Asked) => answerOf(run(asked)) } } as unknown as Books,
    begin(next: Simulation): void {
      simulation = next;
      for (const table of ['usage_events', 'usage_days', 'booked_days']) session.query(`truncate table ${table}`);
    },
    connect: (process: Process): Books => ({
      client: clientOf(process, run, () => simulation.nowMs()),
      ready: async () => true,
      close: async () => {},
    }),
    close: () => session.close(),
  };
}

function clientOf(process: Process, run: (asked: Asked) => string[], nowMs: () => number): ClickHouseClient {
  let requests = 0;
  const ask = <T>(label: string, execute: () => Promise<T>) =>
    process.ask({
      server: 'clickhouse',
      lane: `${process.name} ${(requests += 1)}`,
      label: label.replace(/\s+/g, ' ').trim().slice(0, 60),
      execute,
    });
  return {
    query: (asked: Asked) => ask(asked.query, async () => answerOf(run(asked))),
    command: (asked: Asked) => ask(asked.query, async () => run(asked)),
    // Of refusals, which nothing is proved by.
    insert: ({ table }: { table: string }) => ask(`insert into ${table}`, async () => {}),
    exec: ({ query, values }: { query: string; values: Readable }) =>
      ask(query, async () => {
        run({ query: withTimes(query, await textOf(values), nowMs()) });
        return { stream: Readable.from([]) };
      }),
    ping: () => ask('ping', async () => ({ success: true })),
  } as unknown as ClickHouseClient;
}

/** Events as they are inserted, with the time at which they are: the table would take that of the machine. */
function withTimes(insert: string, rows: string, nowMs: number): string {
  return `${insert.replace(')', ', inserted_at)')}\n${rows.replace(/\]$/gm, `,${nowMs}]`)}`;
}

function asParam(value: unknown): string {
  const asItem = (item: unknown) => (typeof item === 'string' ? quoted(item) : asParam(item));
  return Array.isArray(value) ? `[${value.map(asItem).join()}]` : String(value);
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** An answer that was read as a whole: rows, each of them a line of JSON. */
function answerOf(lines: string[]) {
  const rows = lines.map((line) => ({ text: line, json: () => JSON.parse(line) as unknown }));
  return {
    json: async () => rows.map((row) => row.json()),
    async *stream() {
      yield rows;
    },
    close: () => {},
  };
}
