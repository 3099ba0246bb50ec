import type { Readable } from 'node:stream';
import { connectClickHouse, type Books } from '../../../shared/stores/clickhouse.ts';
import {
  knownMigrations,
  migrateClickHouse,
  migratePostgres,
  type Migrations,
} from '../../../shared/stores/migrate.ts';
import { markUnsummedDays } from '../../../shared/books/sums/marked-days.ts';
import { distrustMeters } from '../../../shared/stores/meters.ts';
import type { Sql } from '../../../shared/stores/postgres.ts';
import { makeSealer, type MasterKeys } from '../../../shared/values/seal.ts';
import { progressOf, readArchive, type Header, type Loaded, type OnProgress } from './archive.ts';
import { backupInBooks, beginBooks, endBooks, writeBooksPart, type Client } from './books-tables.ts';
import { isOfPostgres, letRowsIn, emptyTables, setSequences, writePostgresPart } from './postgres-tables.ts';

/** Reads a whole backup and changes nothing. Throws unless it is whole and this version can load it. */
export function checkBackup(source: Readable, onProgress: OnProgress): Promise<Loaded> {
  const begin = ({ migrations }: Header) => requireKnown(migrations);
  return readArchive(source, { begin, part: progressOf('checked', onProgress) });
}

/** Throws unless what is sealed in a backup can be read with these master keys. */
export function requireMasterKey({ sealedUnder }: Header, masterKeys: Buffer[]): void {
  const have = masterKeys.map((key) => makeSealer([key] as unknown as MasterKeys, 'name').keyName);
  const lacking = sealedUnder.filter((name) => !have.includes(name));
  if (lacking.length === 0) return;
  const given = have.length === 0 ? 'none was given' : `the one given is ${have.join(', ')}`;
  throw new Error(`its sealed keys and secrets need the master key ${lacking.join(', ')}, and ${given}`);
}

/**
 * Loads a backup into empty servers. After a crash the same command, with the same file, goes on.
 * 1. Bring the schemas to where they were at the backup.
 * 2. Note in the books which backup is being loaded, and empty them.
 * 3. Load: Postgres in one transaction, which ends after the last part of the books marks all days to be summed up, and disables what sends usage. A crash before
 *    its end leaves Postgres empty: begin again. After it both are whole, and the steps that follow are left.
 * 4. Bring the schemas up to date.
 * 5. Remove the note.
 */
export async function loadBackup(
  stores: { sql: Sql; clickhouseUrl: string; cluster: string },
  source: Readable,
  onProgress: OnProgress,
): Promise<Loaded> {
  const { sql, clickhouseUrl, cluster } = stores;
  const books = connectClickHouse(clickhouseUrl, cluster);
  try {
    const loaded = (await holdsTeam(sql))
      ? await requireLoaded(books.client, source, onProgress)
      : await loadTables(stores, books, source, onProgress);
    await migratePostgres(sql);
    await migrateClickHouse(clickhouseUrl, { sql, cluster, say: onProgress });
    await endBooks(books.client);
    return loaded;
  } finally {
    await books.close();
  }
}

/**
 * Ends the last step of a load that was cut off in it, for schemas that are up to date: a stack that goes on with what was loaded
 * must not keep the note, by which a later load would empty its books.
 */
export async function endLoad(sql: Sql, clickhouseUrl: string, cluster: string): Promise<void> {
  const { client } = connectClickHouse(clickhouseUrl, cluster);
  try {
    if (await holdsTeam(sql)) await endBooks(client);
  } finally {
    await client.close();
  }
}

async function holdsTeam(sql: Sql): Promise<boolean> {
  const [{ exists }] = await sql<[{ exists: boolean }]>`select to_regclass('public.teams') is not null as exists`;
  return exists && (await sql`select from teams limit 1`).length > 0;
}

/** Throws unless what the servers hold is this backup, and only the last steps of loading it are left. */
async function requireLoaded(client: Client, source: Readable, onProgress: OnProgress): Promise<Loaded> {
  const loading = await backupInBooks(client);
  const loaded = loading === undefined ? undefined : await checkBackup(source, onProgress);
  if (!loaded || nameOf(loaded.header) !== loading)
    throw new Error('Postgres holds the settings of a team already: restore into empty servers');
  return loaded;
}

async function loadTables(
  { sql, clickhouseUrl, cluster }: { sql: Sql; clickhouseUrl: string; cluster: string },
  books: Books,
  source: Readable,
  onProgress: OnProgress,
): Promise<Loaded> {
  const { client } = books;
  return sql.begin(async (tx) => {
    // It waits while the schemas are migrated, and for the books.
    await tx`set local idle_in_transaction_session_timeout = 0`;
    await letRowsIn(tx);
    const note = progressOf('loaded', onProgress);
    const loaded = await readArchive(source, {
      async begin(header) {
        requireKnown(header.migrations);
        await migratePostgres(sql, { only: header.migrations.postgres });
        await migrateClickHouse(clickhouseUrl, { sql, cluster, only: header.migrations.clickhouse });
        await beginBooks(client, nameOf(header));
        await emptyTables(tx, header.tables);
      },
      async part(part, columns) {
        if (isOfPostgres(part.table)) await writePostgresPart(tx, part, columns);
        else await writeBooksPart(client, part, columns);
        note(part);
      },
    });
    await setSequences(tx, loaded.header.sequences);
    if (Object.hasOwn(loaded.header.tables, 'postgres/meter_destinations')) await distrustMeters(tx);
    onProgress(() => 'marking the days that are to be summed up');
    await markUnsummedDays({ sql: tx, books });
    return loaded;
  });
}

/** Tells a backup from others. */
function nameOf({ usageBefore, settingsAt }: Header): string {
  return `usage before ${usageBefore}, settings at ${settingsAt}`;
}

function requireKnown(migrations: Migrations): void {
  const known = knownMigrations();
  const unknown = [
    ...migrations.postgres.filter((name) => !known.postgres.includes(name)),
    ...migrations.clickhouse.filter((name) => !known.clickhouse.includes(name)),
  ];
  if (unknown.length > 0)
    throw new Error(`a newer version of keytally made it (${unknown.join(', ')}): restore it with that version`);
}
