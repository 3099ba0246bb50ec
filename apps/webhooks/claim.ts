import type { Sql, Transaction } from '../../shared/stores/postgres.ts';
import { newId } from '../../shared/values/ids.ts';
import type { Outcome } from './call.ts';

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

/** A page of webhooks for which something waits, from one on, what was claimed of them, and when the next one of either kind is due. */
export type Page = { claimed: Claimed[]; next: string; dueInMs: number };

type ClaimOptions = {
  /** Claims of webhooks that are slow, or of those that are not: each kind has room of its own. */
  slow: boolean;
  /** The webhook after which to look. */
  after: string;
  /** The webhook of each delivery that this process has under way. */
  underWay: string[];
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
  const rows = await sql<(Partial<Claimed> & OfPage)[]>`
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
      left join (select id, count(*)::int as deliveries from unnest(${underWay}::text[]) as one (id) group by id) own using (id)
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
    select claimed.*, page.last_webhook, page.due_in_ms, w.url, w.secret_sealed,
           case when w.previous_until > now() then w.previous_sealed end as previous_sealed,
           e.type, e.workspace_id, e.at, e.data::text, e.created_at as told_at
    from (
      select case when count(waiting.id) = ${WEBHOOKS_AT_ONCE} then max(waiting.id) end as last_webhook,
             extract(epoch from min(first.next_at) - now())::float8 * 1000 as due_in_ms
      from waiting
      left join webhooks w on w.id = waiting.id and w.enabled and w.deleted_at is null
      left join lateral (select d.next_at from webhook_deliveries d where d.webhook_id = w.id and d.state = 'WAITING'
                         order by d.next_at limit 1) first on true
    ) page
    left join (claimed join webhooks w on w.id = claimed.webhook_id join webhook_events e on e.id = claimed.event_id) on true
    order by claimed.id`;
  const claimed = rows.filter((row): row is Claimed & OfPage => row.id != null);
  return { claimed, next: rows[0]?.lastWebhook ?? '', dueInMs: rows[0]?.dueInMs ?? Infinity };
}

type OfPage = { lastWebhook: string | null; dueInMs: number | null };

// Counting goes no further: as many as one team may have.
const MOST_COUNTED = 100_000;

/** How many deliveries wait and webhooks fail, and for how long the oldest is due that nothing holds up: no slow receiver, no end of a webhook. */
export async function countWaiting(sql: Sql): Promise<{ waiting: number; failing: number; dueSeconds: number }> {
  const [row] = await sql<[{ waiting: number; failing: number; dueSeconds: number }]>`
    with known as materialized (select webhook_id, next_at from webhook_deliveries where state = 'WAITING' limit ${MOST_COUNTED})
    select (select count(*) from known) as waiting,
           (select count(*) from (select from webhooks where failing_since is not null and enabled and deleted_at is null
                                  limit ${MOST_COUNTED}) known) as failing,
           (select greatest(0, extract(epoch from now() - min(next_at)))::float8 from known
            join webhooks w on w.id = webhook_id and w.enabled and w.deleted_at is null and not w.is_slow) as due_seconds`;
  return row;
}

/** What became of a delivery by a try: `LOST` where the claim had ended, and another process may have tried it too. */
export type Noted = 'DELIVERED' | 'WAITING' | 'FAILED' | 'LOST';

/** A try of a delivery that was claimed; `random`, from 0 to 1, puts off the next one. */
export type Tried = { claimed: Claimed; outcome: Outcome; atMs: number; random: number };

const MOST_TRIES_KEPT = 100;
const GONE = 410;
const SLOW_MS = 2_000;
const QUICK_MS = 1_000;
const FAILING_DAYS = 5;

/**
 * Notes a try in one transaction: the try, what becomes of the delivery, and what it says of the webhook. A process that dies
 * before it leaves a claim that ends by itself, and the delivery is tried again under the same id.
 */
export async function noteTry(sql: Sql, tried: Tried, retriesMs: readonly number[]): Promise<Noted> {
  const { claimed, outcome, atMs, random } = tried;
  const state = stateAfter(tried, retriesMs);
  const pauseMs = retryAfterMs(retriesMs, claimed.attempts + 1, random) ?? 0;
  return sql.begin(async (tx) => {
    const [noted] = await tx<{ tries: number }[]>`
      update webhook_deliveries
      set state = ${state}, attempts = attempts + 1, tries = tries + 1, claimed_until = null,
          next_at = now() + ${pauseMs}::bigint * interval '1 millisecond', ended_at = case when ${state !== 'WAITING'} then now() end
      where id = ${claimed.id} and claimed_until = ${claimed.claimedUntil}::text::timestamptz and state = 'WAITING'
      returning tries`;
    if (!noted) return 'LOST';
    const { durationMs, status = null, error = null, answer = null } = outcome;
    await tx`
      insert into webhook_tries (delivery_id, number, team_id, at, duration_ms, status, error, answer)
      values (${claimed.id}, ${noted.tries}, ${claimed.teamId}, ${new Date(atMs)}, ${durationMs}, ${status}, ${error}, ${answer})`;
    if (noted.tries > MOST_TRIES_KEPT)
      await tx`delete from webhook_tries where delivery_id = ${claimed.id} and number <= ${noted.tries - MOST_TRIES_KEPT}`;
    await noteOfWebhook(tx, tried);
    return state;
  });
}

export function isDelivered({ status, error }: Outcome): boolean {
  return error === undefined && status !== undefined && status >= 200 && status < 300;
}

function stateAfter({ claimed, outcome }: Tried, retriesMs: readonly number[]): Exclude<Noted, 'LOST'> {
  if (isDelivered(outcome)) return 'DELIVERED';
  return outcome.status === GONE || claimed.attempts >= retriesMs.length ? 'FAILED' : 'WAITING';
}

/**
 * Changes the webhook's row only where something about it changes. Where it has another URL by now, what the earlier one answered
 * says nothing about it.
 */
async function noteOfWebhook(tx: Transaction, { claimed, outcome, atMs }: Tried): Promise<void> {
  const isTried = tx`id = ${claimed.webhookId} and url = ${claimed.url}`;
  const failed = !isDelivered(outcome);
  const isSlow = outcome.durationMs > SLOW_MS ? tx`true` : outcome.durationMs < QUICK_MS ? tx`false` : tx`is_slow`;
  const failingSince = failed ? tx`coalesce(failing_since, ${new Date(atMs)}::timestamptz)` : tx`null::timestamptz`;
  await tx`
    update webhooks set is_slow = ${isSlow}, failing_since = ${failingSince}
    where ${isTried} and (is_slow <> ${isSlow} or failing_since is distinct from ${failingSince})`;
  if (!failed) return;
  const reason = outcome.status === GONE ? 'GONE' : 'FAILING';
  const isOver = tx`${reason === 'GONE'} or failing_since < now() - make_interval(days => ${FAILING_DAYS})`;
  const disabled = await tx`
    update webhooks set enabled = false, disabled_reason = ${reason}, disabled_at = now(), updated_at = now()
    where ${isTried} and enabled and (${isOver})`;
  if (disabled.count === 0) return;
  await tx`
    insert into audit_log (id, team_id, operation, resource, resource_id, before, after)
    values (${newId('audit')}, ${claimed.teamId}, 'webhook disabled', 'webhook', ${claimed.webhookId}, '{"enabled":true}',
            ${JSON.stringify({ enabled: false, disabledReason: reason })}::text::json)`;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** How long after each failed try the next one comes, in ms. After the last there is none. */
export const RETRIES_MS: readonly number[] = [
  5_000,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
];

// Up to a tenth more, so that a receiver that was unavailable does not get all at the same moment.
const JITTER = 0.1;

/** When the next try comes after so many failed ones, `random` being from 0 to 1; undefined after the last. */
export function retryAfterMs(retriesMs: readonly number[], failed: number, random: number): number | undefined {
  const pause = retriesMs[failed - 1];
  return pause === undefined ? undefined : withJitter(pause, random);
}

/** A pause in ms and up to a tenth more, so that what failed together does not come again together; `random` from 0 to 1. */
export function withJitter(pauseMs: number, random: number): number {
  return Math.round(pauseMs * (1 + JITTER * random));
}
