import { chunks } from '../values/chunks.ts';
import type { Query } from './postgres.ts';

/** A day of a billing record, or of the unmetered verifications of a workspace: these have no `billingId`. */
export type RecordDay = { workspaceId: string; billingId: string; day: string };

const DAYS_AT_ONCE = 10_000;

/** Marks days, each once however often it is given: they are summed from their events until they are rolled up again. */
export async function markDays(sql: Query, days: RecordDay[]): Promise<void> {
  const each = new Map(days.map((one) => [markedId(one) + one.day, one]));
  for (const some of chunks([...each.values()], DAYS_AT_ONCE)) {
    // Always in one order, so that two processes never wait for each other.
    await sql`
      insert into usage_marks (workspace_id, billing_id, day)
      select workspace_id, billing_id, day
      from unnest(${some.map(({ workspaceId }) => workspaceId)}::text[], ${some.map(markedId)}::text[],
                  ${some.map(({ day }) => day)}::date[]) as one (workspace_id, billing_id, day)
      order by billing_id, day
      on conflict (billing_id, day) do update set mark = nextval('usage_marks_seq')`;
  }
}

/** What stands as `billing_id` in usage_marks: for unmetered verifications the workspace. */
export function markedId({ workspaceId, billingId }: Pick<RecordDay, 'workspaceId' | 'billingId'>): string {
  return billingId === '' ? workspaceId : billingId;
}
