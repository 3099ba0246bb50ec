import type { Alert } from '../../shared/contract/alerts.ts';
import type { WebhookEvent } from '../../shared/contract/webhook-events.ts';
import type { UsageEvent } from '../../shared/events/event.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import { END } from '../../shared/stores/fields.ts';
import { notifyWebhooks } from '../../shared/stores/notify-webhooks.ts';
import type { Sql, Transaction } from '../../shared/stores/postgres.ts';
import { chunks } from '../../shared/values/chunks.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { newId } from '../../shared/values/ids.ts';

const TELL_WITHIN_MS = 15_000;
const CROSSINGS_AT_ONCE = 1_000;
const FIELDS = 5;

/**
 * Stores the alerts that these events crossed, which were just inserted. A crossing is stored once, by its record, its name and the
 * arming that it ended; and webhooks are notified where it is stored.
 */
export async function notifyAlerts(sql: Sql, clock: Clock, events: UsageEvent[]): Promise<void> {
  const crossings = events.filter(({ crossed }) => crossed !== '').flatMap(crossingsOf);
  for (const some of chunks(crossings, CROSSINGS_AT_ONCE))
    await withTimeout(
      clock,
      TELL_WITHIN_MS,
      sql.begin((tx) => store(tx, some)),
    );
}

/** An alert that an event crossed: as it was declared then, and which arming of it the crossing ended. */
type Crossed = Alert & { armed: string; event: UsageEvent };

/** The alerts in an event's field `crossed`. One of a kind that a later release knows is left out. */
function crossingsOf(event: UsageEvent): Crossed[] {
  return chunks(event.crossed.split(END).slice(0, -1), FIELDS).flatMap((fields) => {
    const [name = '', kind, value, limit = '', armed = ''] = fields;
    const when = whenOf(kind, Number(value), limit);
    return when ? [{ name, when, armed, event }] : [];
  });
}

function whenOf(kind: string | undefined, value: number, limit: string): Alert['when'] | undefined {
  if (kind === 'usedPercent') return { usedPercent: value };
  if (kind === 'available') return { available: formatCredits(value) };
  return kind === 'limit' ? { limit, usedPercent: value } : undefined;
}

async function store(sql: Transaction, crossings: Crossed[]): Promise<void> {
  const of = <Value>(read: (one: Crossed) => Value): Value[] => crossings.map(read);
  // In one order, so that two consumers with the same events wait for each other and never both; of two that store the same
  // crossing, the first.
  const stored = await sql<Stored[]>`
    with stored as (insert into alerts_told (id, team_id, billing_id, name, "when", event_id, at, used_micros, armed)
    select crossed.id, record.team_id, record.id, crossed.name, crossed."when"::json, crossed.event_id, crossed.at, crossed.used_micros, crossed.armed
    from unnest(${of(() => newId('alert'))}::text[], ${of(({ event }) => event.billingId)}::text[], ${of(({ name }) => name)}::text[],
                ${of(({ when }) => JSON.stringify(when))}::text[], ${of(({ event }) => event.id)}::text[],
                ${of(({ event }) => event.timeMs)}::bigint[], ${of(({ event }) => event.usedMicros)}::bigint[],
                ${of(({ armed }) => armed)}::text[])
         with ordinality as crossed (id, billing_id, name, "when", event_id, at, used_micros, armed, place)
    join billing_records record on record.id = crossed.billing_id
    order by crossed.billing_id, crossed.name, crossed.armed, crossed.place
    on conflict (billing_id, name, armed) do nothing returning id, billing_id, name, armed, "when", event_id, at, used_micros)
    select s.*, b.team_id, b.workspace_id, b.external_meter_id,
           (select a ->> 'topUp' from json_array_elements(coalesce(b.alerts, w.default_alerts)) a
            where a ->> 'name' = s.name and (a -> 'when' ->> 'available')::numeric = (s."when" ->> 'available')::numeric) as top_up
    from stored s join billing_records b on b.id = s.billing_id join workspaces w on w.id = b.workspace_id
    order by s.billing_id, s.at, s.name, s.armed`;
  await notifyWebhooks(sql, stored.flatMap(eventsOf));
}

type Stored = {
  id: string;
  billingId: string;
  name: string;
  armed: string;
  when: Alert['when'];
  eventId: string;
  at: number;
  usedMicros: number;
  teamId: string;
  workspaceId: string;
  externalMeterId: string;
  /** What the alert of this name says to buy now. */
  topUp: string | null;
};

function eventsOf({ billingId, name, armed, when, eventId, at, usedMicros, topUp, ...of }: Stored): WebhookEvent[] {
  const { id: topUpId, teamId, workspaceId, externalMeterId } = of;
  const all = { teamId, workspaceId, subjectId: billingId, cause: `${name} ${armed}`, atMs: at };
  const alert = { name, when };
  const data = { billingId, externalMeterId, eventId };
  const told = {
    ...all,
    type: 'credits.alert' as const,
    data: { ...data, alert, usedCredits: formatCredits(usedMicros) },
  };
  const { available: below } = when;
  if (topUp === null || below === undefined) return [told];
  return [told, { ...all, type: 'credits.top_up_due', data: { ...data, topUpId, amount: topUp, below } }];
}
