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

/**
 * Since when destination `d` may have event `e`, although nobody knows; null: it does not have it. Those of before a restore it may have had
 * since their hour was over.
 */
export function triedAt(sql: Query) {
  return sql`coalesce(e.tried_at, case when e.hour < d.restored_at - interval '1 hour' then e.hour + interval '1 hour' end)`;
}

/** What a destination calls billing record `b`; null: it is not sent there. */
export function externalIdOf(sql: Query, destinationId: string) {
  return sql`case when b.external_ids::jsonb ? ${destinationId} then b.external_ids ->> ${destinationId} else b.external_meter_id end`;
}

/** What planning and proofs read of a destination. */
export function meterColumns(sql: Query) {
  return sql`id, team_id, workspace_id, kind, event_names, measure, unit_micros, starts_at`;
}
