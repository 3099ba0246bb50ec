import type { WebhookEventType } from '../contract/webhook-event-types.ts';
import type { WebhookEvent } from '../contract/webhook-events.ts';
import { derivedId, newId } from '../values/ids.ts';
import { chunks } from '../values/chunks.ts';
import type { Query } from './postgres.ts';

/** The channel on which the program that delivers hears that something waits. */
export const WEBHOOKS_CHANNEL = 'keytally_webhooks';

// A team has at most 100,000 deliveries that wait. Each of its 20 webhooks always has room for 1,000; the margin is for
// transactions that look at the same moment.
const ROOM = { ofTeam: 75_000, ofWebhook: 1_000 };
const EVENTS_AT_ONCE = 500;

/**
 * Tells events to the webhooks that want them. Call it in the transaction that makes them happen, after its own locks: either
 * both are stored or neither. An event that is there already is not stored again. Without a webhook that wants it nothing is
 * stored; a webhook that is made later does not get it.
 */
export async function notifyWebhooks(sql: Query, events: WebhookEvent[], room = ROOM): Promise<void> {
  const unique = new Map(events.map((event) => [webhookEventId(event), event]));
  for (const some of chunks([...unique.values()], EVENTS_AT_ONCE)) await tellSome(sql, some, room);
}

async function tellSome(sql: Query, events: WebhookEvent[], room: typeof ROOM): Promise<void> {
  const wanted = await findWanted(sql, events, room);
  const full = [...new Set(wanted.filter(({ hasRoom }) => !hasRoom).map(({ webhookId }) => webhookId))];
  if (full.length > 0)
    await sql`
      update webhooks w set missed = missed + given.events, missed_at = now()
      from unnest(${full}::text[], ${full.map((id) => wanted.filter(({ webhookId }) => webhookId === id).length)}::int[])
        as given (id, events)
      where w.id = given.id`;
  const pairs = wanted.filter(({ hasRoom }) => hasRoom);
  if (pairs.length === 0) return;
  await store(sql, events, pairs);
  await sql`select pg_notify(${WEBHOOKS_CHANNEL}, '')`;
}

/** Tells one webhook an event of type `webhook.test`; gives the id of the delivery. */
export async function notifyOneWebhook(sql: Query, test: OneTest): Promise<string> {
  const { teamId, webhookId, workspaceId, atMs } = test;
  const [eventId, deliveryId] = [newId('msg'), newId('dlv')];
  const data = { message: 'This is a test.' };
  await sql`
    insert into webhook_events (id, team_id, workspace_id, type, subject_id, at, data)
    values (${eventId}, ${teamId}, ${workspaceId}, 'webhook.test', ${webhookId}, ${atMs}, ${JSON.stringify(data)}::text::json)`;
  await sql`
    with counted as (
      insert into webhook_sequences as known (subject_id, team_id, last) values (${webhookId}, ${teamId}, 1)
      on conflict (subject_id) do update set last = known.last + 1 returning last)
    insert into webhook_deliveries (id, team_id, webhook_id, event_id, sequence)
    select ${deliveryId}, ${teamId}, ${webhookId}, ${eventId}, last from counted`;
  await sql`select pg_notify(${WEBHOOKS_CHANNEL}, '')`;
  return deliveryId;
}

type OneTest = { teamId: string; webhookId: string; workspaceId: string | null; atMs: number };

/** Whether one more delivery may wait for a webhook. */
export async function hasRoomForDelivery(sql: Query, teamId: string, webhookId: string): Promise<boolean> {
  const [row] = await sql<[{ hasRoom: boolean }]>`
    select not exists (select from webhook_deliveries where team_id = ${teamId} and state = 'WAITING' offset ${ROOM.ofTeam})
        or not exists (select from webhook_deliveries where webhook_id = ${webhookId} and state = 'WAITING' offset ${ROOM.ofWebhook})
      as has_room`;
  return row.hasRoom;
}

type Wanted = { place: number; webhookId: string; hasRoom: boolean };

/** Which webhooks want which of the events, by their places. */
async function findWanted(sql: Query, events: WebhookEvent[], room: typeof ROOM): Promise<Wanted[]> {
  return sql<Wanted[]>`
    with wanted as (
      select given.place::int as place, w.id, w.team_id
      from unnest(${events.map(({ teamId }) => teamId)}::text[], ${events.map(({ workspaceId }) => workspaceId)}::text[],
                  ${events.map(({ type }) => type)}::text[]) with ordinality as given (team_id, workspace_id, type, place)
      join webhooks w on w.team_id = given.team_id and w.deleted_at is null and w.enabled and given.type = any(w.events)
        and (w.workspace_id is null or w.workspace_id = given.workspace_id)
    ), hooks as (
      select id, team_id from wanted group by id, team_id
    ), teams as (
      select team_id, exists (select from webhook_deliveries d where d.team_id = known.team_id and d.state = 'WAITING'
                              offset ${room.ofTeam}) as is_full
      from (select distinct team_id from hooks) known
    )
    select wanted.place, wanted.id as webhook_id,
           not teams.is_full or not exists (select from webhook_deliveries d where d.webhook_id = wanted.id
                                            and d.state = 'WAITING' offset ${room.ofWebhook}) as has_room
    from wanted join teams on teams.team_id = wanted.team_id
    order by wanted.id, wanted.place`;
}

/** In the order of the subjects, so that two transactions with the same ones wait for each other and never both. */
async function store(sql: Query, events: WebhookEvent[], pairs: Wanted[]): Promise<void> {
  const of = <Value>(read: (event: WebhookEvent) => Value): Value[] => events.map(read);
  const places = new Set(pairs.map(({ place }) => place));
  await sql`
    with given as (
      select * from unnest(
        ${of(webhookEventId)}::text[], ${of(({ teamId }) => teamId)}::text[], ${of(({ workspaceId }) => workspaceId)}::text[],
        ${of(({ type }) => type)}::text[], ${of(({ subjectId }) => subjectId)}::text[], ${of(({ atMs }) => atMs)}::bigint[],
        ${of(({ data }) => JSON.stringify(data))}::text[])
        with ordinality as given (id, team_id, workspace_id, type, subject_id, at, data, place)
    ), fresh as (
      insert into webhook_events (id, team_id, workspace_id, type, subject_id, at, data)
      select id, team_id, workspace_id, type, subject_id, at, data::json from given where place = any(${[...places]}::int[])
      order by subject_id, place
      on conflict do nothing
      returning id, team_id, subject_id
    ), counted as (
      insert into webhook_sequences as known (subject_id, team_id, last)
      select subject_id, team_id, count(*) from fresh group by 1, 2 order by 1
      on conflict (subject_id) do update set last = known.last + excluded.last
      returning subject_id, last
    ), numbered as (
      select fresh.id, fresh.team_id, given.place,
             counted.last - count(*) over (partition by fresh.subject_id)
               + row_number() over (partition by fresh.subject_id order by given.place) as sequence
      from fresh join given using (id) join counted on counted.subject_id = fresh.subject_id
    )
    insert into webhook_deliveries (id, team_id, webhook_id, event_id, sequence)
    select pair.id, numbered.team_id, pair.webhook_id, numbered.id, numbered.sequence
    from unnest(${pairs.map(() => newId('dlv'))}::text[], ${pairs.map(({ webhookId }) => webhookId)}::text[],
                ${pairs.map(({ place }) => place)}::int[]) as pair (id, webhook_id, place)
    join numbered using (place)
    order by pair.id`;
}

/** The id of an event, which receivers know it by: it follows from its cause. */
export function webhookEventId({ type, teamId, subjectId, cause }: IdentifiedBy): string {
  return derivedId('msg', type, teamId, subjectId, cause);
}

type IdentifiedBy = { type: WebhookEventType } & Pick<WebhookEvent, 'teamId' | 'subjectId' | 'cause'>;
