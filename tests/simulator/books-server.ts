import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import type { Books } from '../../shared/stores/clickhouse.ts';
import type { Process } from './simulation.ts';

export type BooksServer = ReturnType<typeof makeBooksServer>;

/** A ClickHouse whose life is simulated: queries run on a real one. */
export function makeBooksServer(real: Books, database: string) {
  return {
    real,
    async begin(): Promise<void> {
      await real.client.command({ query: `truncate tables from ${database} not like 'schema_migrations'` });
    },
    connect: (process: Process): Books => ({
      client: clientOf(process, real.client),
      ready: async () => true,
      close: async () => {},
    }),
  };
}

function clientOf(process: Process, real: ClickHouseClient): ClickHouseClient {
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
        const text = await (await real.query(params)).text();
        return answerOf(text);
      }),
    insert: (params: { table: string }) => ask(`insert into ${params.table}`, () => real.insert(params as never)),
    command: (params: { query: string }) => ask(params.query, () => real.command(params)),
    exec: (params: { query: string }) =>
      ask(params.query, async () => {
        const { stream } = await real.exec(params);
        await finished(stream.resume());
        return { stream: Readable.from([]) };
      }),
    ping: () => ask('ping', async () => ({ success: true })),
  } as unknown as ClickHouseClient;
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
