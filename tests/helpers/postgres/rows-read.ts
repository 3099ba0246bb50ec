import type { Transaction } from '../../../shared/stores/postgres.ts';

/** How many rows of a table Postgres reads for some work in a transaction, by an index or without one. */
export async function rowsRead(tx: Transaction, table: string, work: () => PromiseLike<unknown>): Promise<number> {
  const read = async () => {
    const [row] = await tx<[{ read: number }]>`
      select seq_tup_read + coalesce(idx_tup_fetch, 0) as read from pg_stat_xact_user_tables where relname = ${table}`;
    return row.read;
  };
  const before = await read();
  await work();
  return (await read()) - before;
}
