import type { Query } from './postgres.ts';

/** The channel on which the program that sends hears that something waits for an external meter. */
export const METERS_CHANNEL = 'keytally_meters';

/**
 * After Postgres was restored from a backup. Nobody knows what was sent since, nor which days were noted: nothing is sent until somebody
 * has looked, and all days are planned again. Gives the destinations.
 */
export async function distrustMeters(sql: Query): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    update meter_destinations set enabled = false, backfilled_to = '', restored_at = now(), updated_at = now()
    where deleted_at is null returning id`;
  return rows.map(({ id }) => id);
}

/** What planning and proofs read of a destination. */
export function meterColumns(sql: Query) {
  return sql`id, team_id, workspace_id, kind, event_names, measure, unit_micros, starts_at`;
}
