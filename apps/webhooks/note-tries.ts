import type { Sql, Transaction } from '../../shared/stores/postgres.ts';
import { newId } from '../../shared/values/ids.ts';
import type { Outcome } from './call.ts';
import type { Claimed } from './claim.ts';
import { retryAfterMs } from './retries.ts';

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
 * Notes some tries, each of another delivery, in one transaction: the try, what becomes of the delivery, and what it says of the
 * webhook. A process that dies before it leaves claims that end by themselves, and the deliveries are tried again under the same
 * ids.
 */
export async function noteTries(sql: Sql, tries: readonly Tried[], retriesMs: readonly number[]): Promise<Noted[]> {
  return sql.begin(async (tx) => {
    const states = tries.map((tried) => stateAfter(tried, retriesMs));
    const noted = await noteDeliveries(tx, tries, states, retriesMs);
    for (const ofPlace of Map.groupBy(
      tries.filter(({ claimed }) => noted.has(claimed.id)),
      ({ claimed: { webhookId, url } }) => `${webhookId} ${url}`,
    ).values())
      await noteOfWebhook(tx, ofPlace);
    return tries.map(({ claimed }, i) => (noted.has(claimed.id) ? states[i]! : 'LOST'));
  });
}

export function isDelivered({ status, error }: Outcome): boolean {
  return error === undefined && status !== undefined && status >= 200 && status < 300;
}

type Known = Exclude<Noted, 'LOST'>;

function stateAfter({ claimed, outcome }: Tried, retriesMs: readonly number[]): Known {
  if (isDelivered(outcome)) return 'DELIVERED';
  return outcome.status === GONE || claimed.attempts >= retriesMs.length ? 'FAILED' : 'WAITING';
}

/** Gives the deliveries that were still claimed for these tries. */
async function noteDeliveries(
  tx: Transaction,
  tries: readonly Tried[],
  states: readonly Known[],
  retriesMs: readonly number[],
): Promise<Set<string>> {
  const of = <Value>(read: (tried: Tried) => Value): Value[] => tries.map(read);
  const rows = await tx<{ deliveryId: string; number: number }[]>`
    with tried as (
      select * from unnest(
        ${of(({ claimed }) => claimed.id)}::text[], ${of(({ claimed }) => claimed.claimedUntil)}::text[]::timestamptz[],
        ${[...states]}::text[],
        ${of(({ claimed, random }) => retryAfterMs(retriesMs, claimed.attempts + 1, random) ?? 0)}::bigint[],
        ${of(({ atMs }) => atMs)}::bigint[], ${of(({ outcome }) => outcome.durationMs)}::int[],
        ${of(({ outcome }) => outcome.status ?? null)}::int[], ${of(({ outcome }) => outcome.error ?? null)}::text[],
        ${of(({ outcome }) => outcome.answer ?? null)}::text[])
        as tried (id, claimed_until, state, pause_ms, at_ms, duration_ms, status, error, answer)
    ), noted as (
      update webhook_deliveries d
      set state = tried.state, attempts = d.attempts + 1, tries = d.tries + 1, claimed_until = null,
          next_at = now() + tried.pause_ms * interval '1 millisecond',
          ended_at = case when tried.state <> 'WAITING' then now() end
      from tried where d.id = tried.id and d.claimed_until = tried.claimed_until and d.state = 'WAITING'
      returning d.id, d.team_id, d.tries
    )
    insert into webhook_tries (delivery_id, number, team_id, at, duration_ms, status, error, answer)
    select noted.id, noted.tries, noted.team_id, to_timestamp(at_ms::float8 / 1000), duration_ms, status, error, answer
    from noted join tried using (id)
    returning delivery_id, number`;
  for (const { deliveryId, number } of rows.filter((row) => row.number > MOST_TRIES_KEPT))
    await tx`delete from webhook_tries where delivery_id = ${deliveryId} and number <= ${number - MOST_TRIES_KEPT}`;
  return new Set(rows.map(({ deliveryId }) => deliveryId));
}

/**
 * Tries of one webhook at one URL: changes the webhook's row only where something about it changes. Where it has another URL by
 * now, what the earlier one answered says nothing about it.
 */
async function noteOfWebhook(tx: Transaction, tries: readonly Tried[]): Promise<void> {
  const { webhookId, teamId, url, failingSince, isSlow } = tries.at(-1)!.claimed;
  const isTried = tx`id = ${webhookId} and url = ${url}`;
  const slow = tries.some(({ outcome }) => outcome.durationMs > SLOW_MS);
  const quick = !slow && tries.some(({ outcome }) => outcome.durationMs < QUICK_MS);
  if (slow && !isSlow) await tx`update webhooks set is_slow = true where ${isTried} and not is_slow`;
  if (quick && isSlow) await tx`update webhooks set is_slow = false where ${isTried} and is_slow`;
  const failed = tries.filter(({ outcome }) => !isDelivered(outcome));
  const gone = failed.some(({ outcome }) => outcome.status === GONE);
  if (failed.length < tries.length) {
    if (failingSince) await tx`update webhooks set failing_since = null where ${isTried} and failing_since is not null`;
  } else {
    const sinceMs = Math.min(...failed.map(({ atMs }) => atMs));
    if (!failingSince)
      await tx`update webhooks set failing_since = ${new Date(sinceMs)} where ${isTried} and failing_since is null`;
    else if (!gone && sinceMs - failingSince.getTime() > FAILING_DAYS * 86_400_000)
      await disable(tx, { webhookId, teamId, url }, 'FAILING');
  }
  if (gone) await disable(tx, { webhookId, teamId, url }, 'GONE');
}

type Place = Pick<Claimed, 'webhookId' | 'teamId' | 'url'>;

async function disable(tx: Transaction, { webhookId, teamId, url }: Place, reason: 'GONE' | 'FAILING'): Promise<void> {
  // Again by its row: a success of another delivery may have come between.
  const isStill = reason === 'GONE' ? tx`true` : tx`failing_since < now() - make_interval(days => ${FAILING_DAYS})`;
  const changed = await tx`
    update webhooks set enabled = false, disabled_reason = ${reason}, disabled_at = now(), updated_at = now()
    where id = ${webhookId} and url = ${url} and enabled and ${isStill}`;
  if (changed.count === 0) return;
  await tx`
    insert into audit_log (id, team_id, operation, resource, resource_id, before, after)
    values (${newId('audit')}, ${teamId}, 'webhook disabled', 'webhook', ${webhookId}, '{"enabled":true}',
            ${JSON.stringify({ enabled: false, disabledReason: reason })}::text::json)`;
}
