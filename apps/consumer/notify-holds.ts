import type { Clock } from '../../shared/runtime/clock.ts';
import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import { decodeEvent, eventFields } from '../../shared/events/event.ts';
import type { WebhookEvent } from '../../shared/contract/webhook-events.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import { eachOf, type Sql } from '../../shared/stores/postgres.ts';
import { notifyWebhooks } from '../../shared/stores/notify-webhooks.ts';
import { chunks } from '../../shared/values/chunks.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { wantingWorkspaces } from './wanting-workspaces.ts';

/** Notifies webhooks of holds that ended by themselves, by events that were just inserted. */
export type NotifyHolds = (events: CarriedEvent[]) => Promise<void>;

const WITHIN_MS = 15_000;
const HOLDS_AT_ONCE = 500;
// How the script says that nobody settled it (turns.lua).
const ENDED = new RegExp(`"${eventFields.detail.json}":"(?:expired|charged)"`);

export function makeNotifyHolds(sql: Sql, clock: Clock): NotifyHolds {
  return async function notifyHolds(events) {
    const ended = events.filter(({ kind, json }) => (kind === 'release' || kind === 'capture') && ENDED.test(json));
    if (ended.length === 0) return;
    const workspaceIds = [...new Set(ended.map(({ workspaceId }) => workspaceId))];
    const wanting = await wantingWorkspaces(sql, workspaceIds, ['hold.expired']);
    const wanted = ended.filter(({ workspaceId }) => wanting.has(workspaceId));
    for (const some of chunks(wanted, HOLDS_AT_ONCE)) await withTimeout(clock, WITHIN_MS, notify(sql, some));
  };
}

async function notify(sql: Sql, lines: CarriedEvent[]): Promise<void> {
  const rows = await sql<{ id: string; teamId: string; externalMeterId: string }[]>`
    select id, team_id, external_meter_id from billing_records
    where id = any(${eachOf(
      sql,
      lines.map(({ billingId }) => billingId),
    )})`;
  const records = new Map(rows.map((row) => [row.id, row]));
  const events = lines.flatMap(({ json, billingId, workspaceId }): WebhookEvent[] => {
    const record = records.get(billingId);
    if (!record) return [];
    const { id, holdId, holdMicros, timeMs, keyId, detail } = decodeEvent(json);
    const { teamId, externalMeterId } = record;
    const credits = formatCredits(holdMicros);
    const outcome = detail === 'charged' ? ('charged' as const) : ('released' as const);
    const data = {
      billingId,
      externalMeterId,
      holdEventId: `evt_${holdId}`,
      eventId: id,
      apiKeyId: keyId,
      credits,
      outcome,
    };
    return [{ type: 'hold.expired', teamId, workspaceId, subjectId: billingId, cause: holdId, atMs: timeMs, data }];
  });
  await sql.begin((tx) => notifyWebhooks(tx, events));
}
