import type { WebhookEventType } from '../../shared/contract/webhook-events.ts';
import type { Sql } from '../../shared/stores/postgres.ts';

/** Of some workspaces, those of which a webhook wants events of one of these types, with their teams. */
export async function wantingWorkspaces(
  sql: Sql,
  workspaceIds: string[],
  types: WebhookEventType[],
): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; teamId: string }[]>`
    select w.id, w.team_id from workspaces w
    where w.id = any(${workspaceIds}) and exists (
      select from webhooks h
      where h.team_id = w.team_id and h.deleted_at is null and h.enabled and (h.workspace_id is null or h.workspace_id = w.id)
        and h.events && ${types}::text[])`;
  return new Map(rows.map(({ id, teamId }) => [id, teamId]));
}
