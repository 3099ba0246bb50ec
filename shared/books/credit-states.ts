import type { WebhookEvent } from '../contract/webhook-events.ts';
import { eachOf, type Query } from '../stores/postgres.ts';
import { notifyWebhooks } from '../stores/notify-webhooks.ts';
import { formatCredits } from '../values/credits.ts';

/** A record of which webhooks may be notified that its credits are exhausted, or replenished. */
export type CreditRecord = {
  id: string;
  teamId: string;
  workspaceId: string;
  externalMeterId: string;
  allowOverages: boolean;
  spendCapMicros: number | null;
};

export type CreditAmounts = { usedMicros: number; heldMicros: number; totalMicros: number; expiredMicros: number };

/** Whether nothing of a record may be used any more: no credits are left, or its spend cap is reached. */
export function isExhausted(
  { allowOverages, spendCapMicros }: Pick<CreditRecord, 'allowOverages' | 'spendCapMicros'>,
  { usedMicros, heldMicros, totalMicros, expiredMicros }: CreditAmounts,
): boolean {
  const limit = allowOverages ? Infinity : totalMicros - expiredMicros;
  return usedMicros + heldMicros >= Math.min(limit, spendCapMicros ?? Infinity);
}

/** Notes that somebody has to look at the credits of these records for webhooks. */
export async function noteCreditLooks(sql: Query, billingIds: string[]): Promise<void> {
  await sql`
    insert into credit_looks (billing_id, team_id)
    -- Each record before its look, as who adds to a record does: both at once would wait for each other.
    select id, team_id from billing_records where id = any(${eachOf(sql, billingIds)}) order by id for key share
    on conflict (billing_id) do update set mark = nextval('credit_looks_seq'), look_at = now()`;
}

/** The same of those whose credits are exhausted, as far as webhooks were notified: something was added to them. */
export async function noteReplenished(sql: Query, billingIds: string[]): Promise<void> {
  const rows = await sql<{ id: string }[]>`
    select billing_id as id from credit_states where billing_id = any(${eachOf(sql, billingIds)}) and is_exhausted`;
  const ids = rows.map(({ id }) => id);
  if (ids.length > 0) await noteCreditLooks(sql, ids);
}

/**
 * Keeps whether a record's credits are exhausted, and notifies webhooks where that has changed: exhausted once until they are
 * replenished. What it says now is what counts, so saying it again changes nothing.
 */
export async function noteCredits(
  tx: Query,
  record: CreditRecord,
  amounts: CreditAmounts,
  atMs: number,
): Promise<void> {
  const exhausted = isExhausted(record, amounts);
  const [changed] = exhausted
    ? await tx<{ times: number }[]>`
        insert into credit_states as known (billing_id, team_id, times, is_exhausted) values (${record.id}, ${record.teamId}, 1, true)
        on conflict (billing_id) do update set is_exhausted = true, times = known.times + 1, changed_at = now()
        where not known.is_exhausted returning times`
    : await tx<{ times: number }[]>`
        update credit_states set is_exhausted = false, changed_at = now()
        where billing_id = ${record.id} and is_exhausted returning times`;
  if (!changed) return;
  const event: WebhookEvent = {
    type: exhausted ? 'credits.exhausted' : 'credits.replenished',
    teamId: record.teamId,
    workspaceId: record.workspaceId,
    subjectId: record.id,
    cause: String(changed.times),
    atMs,
    data: {
      billingId: record.id,
      externalMeterId: record.externalMeterId,
      usedCredits: formatCredits(amounts.usedMicros),
      totalCredits: formatCredits(amounts.totalMicros),
    },
  };
  await notifyWebhooks(tx, [event]);
}
