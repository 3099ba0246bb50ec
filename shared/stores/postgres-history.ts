import type { Query } from './postgres.ts';

/**
 * SQL for the name of Postgres's history, within which a transaction id means one transaction: `<cluster>/<timeline>`, and
 * the time of the last `restored`. A cluster that was made anew, a standby that was promoted, a recovery to a point in
 * time and a data folder of an older day all count other transactions by the same ids.
 */
export function historyOf(sql: Query) {
  return sql`(
    select system_identifier || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)
           || coalesce('/' || (select at from job_watermarks where job = 'restored'), '')
    from pg_control_system())`;
}

// The form of the records in Redis. A new number makes every shard be written again, because nothing that an older release
// wrote there counts as up to date. 2: lists of addresses stand apart from the records that name them.
const RECORDS_FORM = 2;

/** SQL for what a checkpoint belongs to: the history of Postgres, and the form in which its records were written to Redis. */
export function checkpointHistoryOf(sql: Query) {
  return sql`${historyOf(sql)} || ${`/form ${RECORDS_FORM}`}::text`;
}

/** The job under which the pruning of changes keeps how far it came in a history. */
export function prunedJob(history: string): string {
  return `changes_pruned ${history}`;
}
