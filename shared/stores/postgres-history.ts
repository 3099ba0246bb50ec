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

/** The job under which the pruning of changes keeps how far it came in a history. */
export function prunedJob(history: string): string {
  return `changes_pruned ${history}`;
}
