import type { Clock } from '../../shared/runtime/clock.ts';
import type { CarriedEvent } from '../../shared/events/carried-event.ts';
import { readCrossed, type Crossing } from '../../shared/events/crossed.ts';
import { decodeEvent, eventFields, type UsageEvent } from '../../shared/events/event.ts';
import type { WebhookEvent } from '../../shared/contract/webhook-events.ts';
import { withTimeout } from '../../shared/runtime/timeout.ts';
import type { Sql, Transaction } from '../../shared/stores/postgres.ts';
import { tellWebhooks } from '../../shared/stores/tell-webhooks.ts';
import { chunks } from '../../shared/values/chunks.ts';
import { formatCredits } from '../../shared/values/credits.ts';
import { newId } from '../../shared/values/ids.ts';

/** Stores the alerts that these events crossed, which were just inserted. */
export type TellAlerts = (events: CarriedEvent[]) => Promise<void>;

const TELL_WITHIN_MS = 15_000;
const CROSSINGS_AT_ONCE = 1_000;
// In JSON a quote inside of a text has a backslash before it, so only a field has this.
const HAS_CROSSED = `"${eventFields.crossed.json}":`;

/** A crossing is stored once, by its record, its name and the arming that it ended; and told to webhooks where it is stored. */
export function makeTellAlerts(sql: Sql, clock: Clock): TellAlerts {
  return async function tellAlerts(events) {
    const crossings = events.filter(({ row, json }) => row !== '' && json.includes(HAS_CROSSED)).flatMap(crossingsOf);
    for (const some of chunks(crossings, CROSSINGS_AT_ONCE))
      await withTimeout(
        clock,
        TELL_WITHIN_MS,
        sql.begin((tx) => store(tx, some)),
      );
  };
}

type Told = Crossing & { event: UsageEvent };

function crossingsOf({ json }: CarriedEvent): Told[] {
  const event = decodeEvent(json);
  return readCrossed(event.crossed).map((crossing) => ({ ...crossing, event }));
}

async function store(sql: Transaction, crossings: Told[]): Promise<void> {
  const of = <Value>(read: (one: Told) => Value): Value[] => crossings.map(read);
  // In one order, so that two consumers with the same events wait for each other and never both; of two that tell the same
  // crossing, the first.
  const stored = await sql<Stored[]>`
    with stored as (insert into alerts_told (id, team_id, billing_id, name, "when", event_id, at, used_micros, armed)
    select told.id, record.team_id, record.id, told.name, told."when"::json, told.event_id, told.at, told.used_micros, told.armed
    from unnest(${of(() => newId('alert'))}::text[], ${of(({ event }) => event.billingId)}::text[], ${of(({ name }) => name)}::text[],
                ${of(({ when }) => JSON.stringify(when))}::text[], ${of(({ event }) => event.id)}::text[],
                ${of(({ event }) => event.timeMs)}::bigint[], ${of(({ event }) => event.usedMicros)}::bigint[],
                ${of(({ armed }) => armed)}::text[])
         with ordinality as told (id, billing_id, name, "when", event_id, at, used_micros, armed, place)
    join billing_records record on record.id = told.billing_id
    order by told.billing_id, told.name, told.armed, told.place
    on conflict (billing_id, name, armed) do nothing returning billing_id, name, armed, "when", event_id, at, used_micros)
    select s.*, b.team_id, b.workspace_id, b.external_meter_id from stored s join billing_records b on b.id = s.billing_id
    order by s.billing_id, s.at, s.name, s.armed`;
  await tellWebhooks(sql, stored.map(told));
}

type Stored = {
  billingId: string;
  name: string;
  armed: string;
  when: Crossing['when'];
  eventId: string;
  at: number;
  usedMicros: number;
  teamId: string;
  workspaceId: string;
  externalMeterId: string;
};

function told({ billingId, name, armed, when, eventId, at, usedMicros, ...of }: Stored): WebhookEvent {
  const { teamId, workspaceId, externalMeterId } = of;
  return {
    type: 'credits.alert',
    teamId,
    workspaceId,
    subjectId: billingId,
    cause: `${name} ${armed}`,
    atMs: at,
    data: { billingId, externalMeterId, alert: { name, when }, usedCredits: formatCredits(usedMicros), eventId },
  };
}
