import type { Sql } from '../../shared/stores/postgres.ts';

/** A delivery that this process alone may try until `claimedUntil`, and what it sends. */
export type Claimed = {
  id: string;
  teamId: string;
  webhookId: string;
  attempts: number;
  sequence: number;
  claimedUntil: string;
  url: string;
  secretSealed: Buffer;
  previousSealed: Buffer | null;
  eventId: string;
  type: string;
  workspaceId: string | null;
  at: number;
  data: string;
  toldAt: Date;
};

/** A page of webhooks for which something waits, from one on, and what was claimed of them. */
export type Page = { claimed: Claimed[]; next: string };

type ClaimOptions = {
  /** Claims of webhooks that are slow, or of those that are not: each kind has room of its own. */
  slow: boolean;
  /** The webhook after which to look. */
  after: string;
  /** How many this process has under way, by webhook. */
  underWay: ReadonlyMap<string, number>;
  most: number;
  perWebhook: number;
};

// Longer than a try and the note of it may take. A process that died holds its deliveries up for so long.
const CLAIM_SECONDS = 30;
const WEBHOOKS_AT_ONCE = 200;

/**
 * Claims deliveries that are due. Of webhooks with few under way first, then those that are due first: however much waits for
 * one, it takes no other's turn. The lock of a webhook's row lets one process at a time claim for it. It reads an index by
 * webhook, one entry for each that has something waiting and those that are due: never all that wait.
 *
 * Each process counts what it has under way itself: what one that died had claimed waits for the end of the claim, and takes no
 * room of the others meanwhile.
 */
export async function claim(sql: Sql, { slow, after, underWay, most, perWebhook }: ClaimOptions): Promise<Page> {
  const rows = await sql<(Partial<Claimed> & { lastWebhook: string | null })[]>`
    with recursive waiting (id, place) as (
      (select webhook_id, 1 from webhook_deliveries where state = 'WAITING' and webhook_id > ${after}
       order by webhook_id limit 1)
      union all
      select (select d.webhook_id from webhook_deliveries d where d.state = 'WAITING' and d.webhook_id > w.id
              order by d.webhook_id limit 1), place + 1
      from waiting w where w.id is not null and w.place < ${WEBHOOKS_AT_ONCE}
    ), open as (
      select w.id from webhooks w
      where w.id in (select id from waiting) and w.enabled and w.deleted_at is null and w.is_slow = ${slow}
        and exists (select from webhook_deliveries d where d.webhook_id = w.id and d.state = 'WAITING' and d.next_at <= now())
      order by w.id for no key update of w skip locked
    ), picked as (
      select due.id from open
      left join unnest(${[...underWay.keys()]}::text[], ${[...underWay.values()]}::int[]) as own (webhook_id, deliveries)
        on own.webhook_id = open.id
      cross join lateral (
        select d.id, d.next_at, coalesce(own.deliveries, 0) + row_number() over (order by d.next_at) as turn
        from webhook_deliveries d where d.webhook_id = open.id and d.state = 'WAITING' and d.next_at <= now()
        order by d.next_at limit greatest(0, ${perWebhook}::int - coalesce(own.deliveries, 0))) due
      order by due.turn, due.next_at limit ${most}
    ), claimed as (
      update webhook_deliveries d
      set claimed_until = now() + make_interval(secs => ${CLAIM_SECONDS}), next_at = now() + make_interval(secs => ${CLAIM_SECONDS})
      from picked
      where d.id = picked.id and d.state = 'WAITING' and d.next_at <= now()
      returning d.id, d.team_id, d.webhook_id, d.event_id, d.attempts, d.sequence, d.claimed_until::text
    )
    select claimed.*, w.url, w.secret_sealed,
           case when w.previous_until > now() then w.previous_sealed end as previous_sealed,
           e.type, e.workspace_id, e.at, e.data::text, e.created_at as told_at, page.last_webhook
    from (select case when count(id) = ${WEBHOOKS_AT_ONCE} then max(id) end as last_webhook from waiting) page
    left join (claimed join webhooks w on w.id = claimed.webhook_id join webhook_events e on e.id = claimed.event_id) on true`;
  const claimed = rows.filter((row): row is Claimed & { lastWebhook: string | null } => row.id != null);
  return { claimed, next: rows[0]?.lastWebhook ?? '' };
}
