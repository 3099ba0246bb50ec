import type { Sql } from '../../shared/stores/postgres.ts';

/** Lets so many deliveries of no event wait for a webhook. Without triggers: looking up each reference would take seconds. */
export async function fillWith(
  sql: Sql,
  { teamId, webhookId, deliveries }: { teamId: string; webhookId: string; deliveries: number },
): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into webhook_deliveries (id, team_id, webhook_id, event_id, sequence)
      select ${webhookId} || n, ${teamId}, ${webhookId}, ${webhookId} || n, n from generate_series(1, ${deliveries}::int) n`;
  });
}
