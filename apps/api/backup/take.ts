import type { Writable } from 'node:stream';
import { abortAfter, systemClock } from '../../../shared/runtime/clock.ts';
import { retry } from '../../../shared/runtime/retry.ts';
import type { Logger } from '../../../shared/runtime/log.ts';
import { booksWatermark } from '../../../shared/events/watermark.ts';
import type { Books } from '../../../shared/stores/clickhouse.ts';
import { appliedMigrations } from '../../../shared/stores/migrate.ts';
import type { Query, Sql, Transaction } from '../../../shared/stores/postgres.ts';
import type { ShardedRedis } from '../../../shared/stores/redis.ts';
import { progressOf, writeArchive, type Header, type Loaded, type OnProgress, type Part } from './archive.ts';
import { booksTables, readBooksTable } from './books-tables.ts';
import { isOfPostgres, postgresTables, readPostgresTable, readSequences } from './postgres-tables.ts';

type Stores = { sql: Sql; redis: ShardedRedis; books: Books };

const LOOK_EVERY_MS = 200;

/**
 * Writes a backup to a stream while the stack runs. Left out are Redis, since an empty one is filled from the rest, and what was
 * computed from events.
 * 1. Wait until the books hold all events from before a moment. None of those will be written again, so "from before the moment"
 *    names the same events for as long as the copying takes.
 * 2. Take a snapshot of Postgres. It has every record that those events name, since it is later.
 * 3. Copy Postgres from the snapshot, end it, then copy the books. A migration waits for every table that was read from the
 *    snapshot, and all other queries wait for the migration; the events may take an hour.
 */
export async function takeBackup(
  stores: Stores & { log: Logger; patienceMs: number; version: string },
  out: Writable,
  onProgress: OnProgress,
): Promise<Loaded> {
  const { sql, redis, books, log, patienceMs } = stores;
  // It may pause for seconds while its disk is slow.
  const nowMs = await retry(systemClock, abortAfter(systemClock, patienceMs), log, 'the clock of Redis', () =>
    redis.now(),
  );
  const beforeMs = await waitForBooks(sql, nowMs, patienceMs, onProgress);
  const tables = await booksTables(books.client);
  const { tx, end } = await takeSnapshot(sql);
  try {
    const [{ at }] = await tx<[{ at: Date }]>`select now() as at`;
    const ofBooks = tables.map(({ table, columns }): [string, string[]] => [table, columns]);
    const header: Header = {
      format: 1,
      keytally: stores.version,
      usageBefore: new Date(beforeMs).toISOString(),
      settingsAt: at.toISOString(),
      migrations: await appliedMigrations(tx, books.client),
      tables: { ...(await postgresTables(tx)), ...Object.fromEntries(ofBooks) },
      sequences: await readSequences(tx),
      sealedUnder: await masterKeysUsed(tx),
    };
    const parts = async function* (): AsyncGenerator<Part> {
      for (const [table, columns] of Object.entries(header.tables).filter(([table]) => isOfPostgres(table)))
        yield* readPostgresTable(tx, table, columns);
      await end();
      for (const table of tables) yield* readBooksTable(books.client, table, beforeMs);
    };
    return { header, rows: await writeArchive(header, parts(), out, progressOf('copied', onProgress)) };
  } finally {
    await end();
  }
}

/** A snapshot of Postgres, on a connection of its own, that stays until it is ended. With a connection that is lost it has ended. */
async function takeSnapshot(sql: Sql) {
  const opened = Promise.withResolvers<Transaction>();
  const ended = Promise.withResolvers<void>();
  const done = sql.begin('isolation level repeatable read read only', async (tx) => {
    await tx`set local idle_in_transaction_session_timeout = 0`;
    opened.resolve(tx);
    await ended.promise;
  });
  const over = done.catch(opened.reject);
  return {
    tx: await opened.promise,
    end: () => {
      ended.resolve();
      return over;
    },
  };
}

/** The names of the master keys without which something that is stored can't be read. */
export async function masterKeysUsed(tx: Query): Promise<string[]> {
  const rows = await tx<{ name: string }[]>`
    select sealed_under as name from (
      select sealed_under from signing_keys union select sealed_under from webhooks where deleted_at is null
      union select sealed_under from meter_destinations where deleted_at is null
      union select sealed_under from payment_sources where deleted_at is null) as sealed
    where sealed_under is not null order by 1`;
  return rows.map(({ name }) => name);
}

/** Waits until the books hold all events from before a moment; gives up when they stand still for `patienceMs`. */
async function waitForBooks(sql: Sql, untilMs: number, patienceMs: number, onProgress: OnProgress): Promise<number> {
  let reached = await booksWatermark(sql);
  for (let movedAt = systemClock.monotonic(); reached < untilMs;) {
    if (systemClock.monotonic() - movedAt > patienceMs) {
      const at = reached === 0 ? 'no usage' : `usage from before ${new Date(reached).toISOString()} alone`;
      throw new Error(
        `the books hold ${at}, and nothing has moved them on for ${Math.round(patienceMs / 1000)} s: ` +
          'is a consumer running? Nothing was backed up',
      );
    }
    onProgress(() => `waiting for usage from before ${new Date(untilMs).toISOString()} to be in the books`);
    await systemClock.sleep(LOOK_EVERY_MS);
    const now = await booksWatermark(sql);
    if (now !== reached) movedAt = systemClock.monotonic();
    reached = now;
  }
  return reached;
}
