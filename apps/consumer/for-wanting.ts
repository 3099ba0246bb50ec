import type { WebhookEventType } from '../../shared/contract/webhook-event-types.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import type { Sql } from '../../shared/stores/postgres.ts';
import { chunks } from '../../shared/values/chunks.ts';

const AT_ONCE = 1_000;
const WITHIN_MS = 15_000;

/** Does something for what happened in workspaces of which a webhook wants events of one of these types, page by page. */
export async function forWanting<Happened extends { workspaceId: string }>(
  { sql, clock }: { sql: Sql; clock: Clock },
  types: WebhookEventType[],
  all: Happened[],
  work: (some: Happened[]) => Promise<void>,
): Promise<void> {
  if (all.length === 0) return;
  const ids = [...new Set(all.map(({ workspaceId }) => workspaceId))];
  const rows = await sql<{ id: string }[]>`
    select w.id from workspaces w
    where w.id = any(${ids}) and exists (
      select from webhooks h
      where h.team_id = w.team_id and h.deleted_at is null and h.enabled and (h.workspace_id is null or h.workspace_id = w.id)
        and h.events && ${types}::text[])`;
  const wanting = new Set(rows.map(({ id }) => id));
  const wanted = all.filter(({ workspaceId }) => wanting.has(workspaceId));
  for (const some of chunks(wanted, AT_ONCE)) await withTimeout(clock, WITHIN_MS, work(some));
}
