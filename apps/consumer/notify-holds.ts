import type { WebhookEvent } from '../../shared/contract/webhook-events.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { notifyWebhooks } from '../../shared/stores/notify-webhooks.ts';
import { eachOf, type Sql } from '../../shared/stores/postgres.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { forWanting } from './for-wanting.ts';

/** How the script says that nobody settled a hold, and what came of it. */
const outcomes = { expired: 'released', charged: 'charged' } as const;
type Ended = UsageEvent & { detail: keyof typeof outcomes };

/** Notifies webhooks of holds that ended by themselves, by events that were just inserted. */
export async function notifyHolds(sql: Sql, clock: Clock, events: UsageEvent[]): Promise<void> {
  const ended = events.filter((event): event is Ended => Object.hasOwn(outcomes, event.detail));
  await forWanting({ sql, clock }, ['hold.expired'], ended, (some) => notify(sql, some));
}

async function notify(sql: Sql, lines: Ended[]): Promise<void> {
  const ids = lines.map(({ billingId }) => billingId);
  const rows = await sql<{ id: string; teamId: string; externalMeterId: string }[]>`
    select id, team_id, external_meter_id from billing_records where id = any(${eachOf(sql, ids)})`;
  const records = new Map(rows.map((row) => [row.id, row]));
  const events = lines.flatMap((line): WebhookEvent[] => {
    const { id, billingId, workspaceId, holdId, holdMicros, timeMs, keyId, detail } = line;
    const record = records.get(billingId);
    if (!record) return [];
    const { teamId, externalMeterId } = record;
    const data = {
      billingId,
      externalMeterId,
      holdEventId: `evt_${holdId}`,
      eventId: id,
      apiKeyId: keyId,
      credits: formatCredits(holdMicros),
      outcome: outcomes[detail],
    };
    return [{ type: 'hold.expired', teamId, workspaceId, subjectId: billingId, cause: holdId, atMs: timeMs, data }];
  });
  await sql.begin((tx) => notifyWebhooks(tx, events));
}
