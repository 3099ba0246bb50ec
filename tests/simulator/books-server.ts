import { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { finished } from 'node:stream/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { Process, Simulation } from './simulation.ts';

export type BooksServer = ReturnType<typeof makeBooksServer>;

/** A ClickHouse whose life is simulated: queries run on a real one, by the clock of the simulation. */
export function makeBooksServer(real: Books, database: string) {
  let nowMs: () => number;
  return {
    real,
    async begin(simulation: Simulation): Promise<void> {
      ({ nowMs } = simulation);
      await real.client.command({ query: `truncate tables from ${database} not like 'schema_migrations'` });
    },
    connect: (process: Process): Books => ({
      client: clientOf(process, real.client, () => nowMs()),
      ready: async () => true,
      close: async () => {},
    }),
  };
}

function clientOf(process: Process, real: ClickHouseClient, nowMs: () => number): ClickHouseClient {
  let requests = 0;
  const ask = <T>(label: string, execute: () => Promise<T>) =>
    process.ask({
      server: 'clickhouse',
      lane: `${process.name} ${(requests += 1)}`,
      label: label.replace(/\s+/g, ' ').trim().slice(0, 60),
      execute,
    });
  return {
    query: (params: Parameters<ClickHouseClient['query']>[0]) =>
      ask(params.query, async () => {
        const query = params.query.replaceAll('now64(3)', `fromUnixTimestamp64Milli(${nowMs()})`);
        return answerOf(await (await real.query({ ...params, query })).text());
      }),
    insert: (params: { table: string }) => ask(`insert into ${params.table}`, () => real.insert(params as never)),
    command: (params: { query: string }) => ask(params.query, () => real.command(params)),
    exec: (params: { query: string; values: Readable }) =>
      ask(params.query, async () => {
        const { stream } = await real.exec(withTimes(params, await textOf(params.values), nowMs()));
        await finished(stream.resume());
        return { stream: Readable.from([]) };
      }),
    ping: () => ask('ping', async () => ({ success: true })),
  } as unknown as ClickHouseClient;
}

/** Events as they are inserted, with the time at which they are: the table would take that of the machine. */
function withTimes<Params extends { query: string }>(params: Params, rows: string, nowMs: number) {
  const isOfEvents = params.query.startsWith('insert into usage_events');
  const query = isOfEvents ? params.query.replace(')', ', inserted_at)') : params.query;
  const values = isOfEvents ? rows.replace(/\]$/gm, `,${nowMs}]`) : rows;
  return { ...params, query, values: Readable.from([Buffer.from(values)], { objectMode: false }) };
}

/** An answer that was read as a whole: rows, each of them a line of JSON. */
function answerOf(text: string) {
  const rows = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => ({ text: line, json: () => JSON.parse(line) as unknown }));
  return {
    text: async () => text,
    json: async () => rows.map((row) => row.json()),
    async *stream() {
      yield rows;
    },
    close: () => {},
  };
}
