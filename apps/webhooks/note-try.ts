import type { Sql, Transaction } from '../../shared/stores/postgres.ts';
import { newId } from '../../shared/values/ids.ts';
import type { Outcome } from './call.ts';
import type { Claimed } from './claim.ts';
import { retryAfterMs } from './retries.ts';

/** What became of a delivery by a try: `LOST` where the claim had ended, and another process may have tried it too. */
export type Noted = 'DELIVERED' | 'WAITING' | 'FAILED' | 'LOST';

type Tried = { claimed: Claimed; outcome: Outcome; atMs: number; retriesMs: readonly number[]; random: number };

const MOST_TRIES_KEPT = 100;
const GONE = 410;
const SLOW_MS = 2_000;
const QUICK_MS = 1_000;
const FAILING_DAYS = 5;

/**
 * Notes a try in one transaction: the try, what becomes of the delivery, and what it says of the webhook. A process that dies
 * before it leaves a claim that ends by itself, and the delivery is tried again under the same id.
 */
export async function noteTry(sql: Sql, tried: Tried): Promise<Noted> {
  return sql.begin(async (tx) => {
    const state = stateAfter(tried);
    const { claimed, retriesMs, random } = tried;
    const pauseMs = retryAfterMs(retriesMs, claimed.attempts + 1, random) ?? 0;
    const [row] = await tx<{ tries: number }[]>`
      update webhook_deliveries
      set state = ${state}, attempts = attempts + 1, tries = tries + 1, claimed_until = null,
          next_at = now() + ${pauseMs} * interval '1 millisecond', ended_at = case when ${state !== 'WAITING'} then now() end
      where id = ${claimed.id} and claimed_until = ${claimed.claimedUntil}::text::timestamptz and state = 'WAITING'
      returning tries`;
    if (!row) return 'LOST';
    await keepTry(tx, tried, row.tries);
    await noteOfWebhook(tx, tried);
    return state;
  });
}

export function isDelivered({ status, error }: Outcome): boolean {
  return error === undefined && status !== undefined && status >= 200 && status < 300;
}

function stateAfter({ claimed, outcome, retriesMs }: Tried): Exclude<Noted, 'LOST'> {
  if (isDelivered(outcome)) return 'DELIVERED';
  return outcome.status === GONE || claimed.attempts >= retriesMs.length ? 'FAILED' : 'WAITING';
}

async function keepTry(tx: Transaction, { claimed, outcome, atMs }: Tried, number: number): Promise<void> {
  const { status, error, answer, durationMs } = outcome;
  await tx`
    insert into webhook_tries (delivery_id, number, team_id, at, duration_ms, status, error, answer)
    values (${claimed.id}, ${number}, ${claimed.teamId}, ${new Date(atMs)}, ${durationMs}, ${status ?? null}, ${error ?? null},
            ${answer ?? null})`;
  if (number > MOST_TRIES_KEPT)
    await tx`delete from webhook_tries where delivery_id = ${claimed.id} and number <= ${number - MOST_TRIES_KEPT}`;
}

/** Changes the webhook's row only where something about it changes. */
async function noteOfWebhook(tx: Transaction, { claimed, outcome, atMs }: Tried): Promise<void> {
  const { webhookId, failingSince, isSlow } = claimed;
  const { durationMs, status } = outcome;
  if (durationMs > SLOW_MS && !isSlow)
    await tx`update webhooks set is_slow = true where id = ${webhookId} and not is_slow`;
  if (durationMs < QUICK_MS && isSlow)
    await tx`update webhooks set is_slow = false where id = ${webhookId} and is_slow`;
  if (isDelivered(outcome)) {
    if (failingSince)
      await tx`update webhooks set failing_since = null where id = ${webhookId} and failing_since is not null`;
    return;
  }
  if (!failingSince)
    await tx`update webhooks set failing_since = ${new Date(atMs)} where id = ${webhookId} and failing_since is null`;
  if (status === GONE) await disable(tx, claimed, 'GONE');
  else if (failingSince && atMs - failingSince.getTime() > FAILING_DAYS * 86_400_000)
    await disable(tx, claimed, 'FAILING');
}

async function disable(tx: Transaction, { webhookId, teamId }: Claimed, reason: 'GONE' | 'FAILING'): Promise<void> {
  // Again by its row: a success of another delivery may have come between.
  const isStill = reason === 'GONE' ? tx`true` : tx`failing_since < now() - make_interval(days => ${FAILING_DAYS})`;
  const changed = await tx`
    update webhooks set enabled = false, disabled_reason = ${reason}, disabled_at = now(), updated_at = now()
    where id = ${webhookId} and enabled and ${isStill}`;
  if (changed.count === 0) return;
  await tx`
    insert into audit_log (id, team_id, operation, resource, resource_id, before, after)
    values (${newId('audit')}, ${teamId}, 'webhook disabled', 'webhook', ${webhookId}, '{"enabled":true}',
            ${JSON.stringify({ enabled: false, disabledReason: reason })}::text::json)`;
}
