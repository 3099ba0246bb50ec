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
