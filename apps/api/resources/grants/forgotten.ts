import { readBooked } from '../../../../shared/books/sums/booked.ts';
import type { Books } from '../../../../shared/stores/clickhouse.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../../shared/stores/redis.ts';
import { readAccount, type RecordAccount } from '../../sync/accounts.ts';
import { endOf, grantPresenter } from './grants.ts';
import { grantRows, type GrantRow } from './rows.ts';

/** The account with what the books have of classes of these grants that it has forgotten. */
export async function withForgotten(
  stores: { sql: Query; books: Books },
  account: RecordAccount,
  rows: readonly GrantRow[],
): Promise<RecordAccount> {
  const { state, balance } = account;
  const known = new Set([...state.classes, ...state.ended].map(({ number }) => number));
  const numbers = rows
    .filter((row) => row.voidedAt !== null || endOf(row) <= balance.atMs)
    .map((row) => row.voidNumber ?? row.number);
  if (numbers.every((number) => known.has(number))) return account;
  const booked = await readBooked(stores, [{ ...balance.billing, counted: balance }]);
  return { ...account, forgotten: booked.get(balance.billing.id)!.classes };
}

/** Reads grants of a record by pages, and presents them by its account and, where it has forgotten one, by the books. */
export async function grantReader(
  { redis, ...stores }: { sql: Query; redis: ShardedRedis; books: Books },
  record: Parameters<typeof readAccount>[1],
) {
  let account = await readAccount(redis, record);
  return {
    async read(after: string, take: number): Promise<GrantRow[]> {
      const rows = await grantRows(stores.sql, record.id, { after, take });
      account = await withForgotten(stores, account, rows);
      return rows;
    },
    present: (row: GrantRow) => grantPresenter(record.id, account)(row),
  };
}
