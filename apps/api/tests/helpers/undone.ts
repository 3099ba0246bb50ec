import type { Sql, Transaction } from '../../../../shared/stores/postgres.ts';

/** Gives what comes of some work in a transaction, which is then rolled back. */
export async function undone<Result>(sql: Sql, work: (tx: Transaction) => Promise<Result>): Promise<Result> {
  const undo: { result?: Result } = {};
  await sql
    .begin(async (tx) => {
      undo.result = await work(tx);
      throw undo;
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error;
    });
  return undo.result!;
}
