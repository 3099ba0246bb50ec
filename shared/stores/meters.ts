import type { Query } from './postgres.ts';

/** The channel on which the program that sends hears that something waits for an external meter. */
export const METERS_CHANNEL = 'keytally_meters';

/** What planning and proofs read of a destination. */
export function meterColumns(sql: Query) {
  return sql`id, team_id, workspace_id, kind, event_names, measure, unit_micros, starts_at`;
}
