import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, MOST_TEXT, named, object, plainText, timestamp, whole } from '../../../../shared/contract/schema-kinds.ts';
import { hasRoomForDelivery, notifyOneWebhook, WEBHOOKS_CHANNEL } from '../../../../shared/stores/notify-webhooks.ts';
import type { Query } from '../../../../shared/stores/postgres.ts';
import { isId } from '../../../../shared/values/ids.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { present, type Row } from '../../resources/rows.ts';
import { withinSight } from '../../resources/access/access.ts';
import { webhooks, type WebhookRow } from '../../resources/webhooks.ts';

const webhookTry = named(
  'WebhookTry',
  object({
    at: timestamp('when it began'),
    durationMs: whole('how long it took', 120),
    status: Type.Optional(whole('HTTP status of the answer', 204)),
    error: Type.Optional(plainText(256, 'why there was no whole answer', 'connect ECONNREFUSED')),
    answer: Type.Optional(
      plainText(MOST_TEXT, 'the first 1 KB of the answer; of a receiver inside 200 bytes', 'thanks'),
    ),
  }),
);

const MOST_TRIES = 20;

/** An event on its way to a webhook. */
const webhookDelivery = named(
  'WebhookDelivery',
  object({
    id: id('webhook delivery'),
    eventId: plainText(MOST_TEXT, '`webhook-id` of the event, the same at every try', 'msg_01kafc6v3nf0qtmhd7d5ryx2s9'),
    type: plainText(64, 'type of the event', 'credits.alert'),
    data: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      maxProperties: 64,
      'x-limits': { maxBytes: 65_536, maxDepth: 8 },
      description: 'what the event says, as its body has it under `data`',
      examples: [{ billingId: 'bill_01kafc6v3nf0qtmhd7d5ryx2s9', availableCredits: '20' }],
    }),
    state: Type.Enum(['WAITING', 'DELIVERED', 'FAILED']),
    createdAt: timestamp('when the event was told'),
    nextTryAt: Type.Optional(timestamp('when it is tried next')),
    tries: Type.Array(webhookTry, { maxItems: MOST_TRIES, description: 'its latest tries, oldest first' }),
  }),
);

type DeliveryRow = Row<typeof webhookDelivery>;
const presentDelivery = (row: DeliveryRow) => present(webhookDelivery, row);

export const listWebhookDeliveries = listRoute('/api/v1/webhook/{wid}/deliveries', 'deliveries', webhookDelivery, {
  summary: 'List what was told to a webhook in the last 30 days, newest first, with each try',
  description: 'Of each try it has the status, the time and the first 1 KB of the answer, or 200 bytes of one inside.',
  permission: 'webhook:read',

  async open({ sql, params, caller }) {
    const { id } = await webhooks.require(sql, params.wid, withinSight(sql, caller));
    return { read: (before, take) => deliveryRows(sql, id, { before, take }), present: presentDelivery };
  },
});

export const testWebhook = route('post', '/api/v1/webhook/{wid}/test', {
  summary: 'Send an event of type webhook.test to a webhook',
  description: 'It is delivered like any other: the deliveries tell what the receiver answered.',
  permission: 'webhook:write',
  status: 201,
  response: object({ delivery: webhookDelivery }),
  errors: ['webhook_disabled', 'webhook_waiting_limit_reached'],

  async handle({ sql, params, caller, changed, clock }) {
    const row = await webhooks.require(sql, params.wid, withinSight(sql, caller), { lock: true });
    await requireDeliverable(sql, caller.teamId, row);
    const told = { teamId: caller.teamId, webhookId: row.id, workspaceId: row.workspaceId, atMs: clock.now() };
    const deliveryId = await notifyOneWebhook(sql, told);
    changed({ resource: 'webhook', id: row.id, after: { tested: deliveryId } });
    const [delivery] = await deliveryRows(sql, row.id, { id: deliveryId });
    return { delivery: presentDelivery(delivery!) };
  },
});

export const redeliverWebhook = route('post', '/api/v1/webhook/{wid}/delivery/{did}/redeliver', {
  summary: 'Deliver an event again, now, under the same webhook-id',
  description: 'Also one that was delivered, or that failed for good; one that waits is tried now.',
  permission: 'webhook:write',
  response: object({ delivery: webhookDelivery }),
  errors: ['webhook_disabled', 'webhook_waiting_limit_reached'],

  async handle({ sql, params, caller, changed }) {
    const row = await webhooks.require(sql, params.wid, withinSight(sql, caller), { lock: true });
    const [before] = isId(params.did) ? await deliveryRows(sql, row.id, { id: params.did }) : [];
    if (!before) throw new ApiError('webhook_delivery_not_found');
    await requireDeliverable(sql, caller.teamId, row);
    // One that is being tried stays as it is: its try is the one that was asked for.
    await sql`
      update webhook_deliveries set state = 'WAITING', attempts = 0, next_at = now(), ended_at = null
      where id = ${before.id} and (claimed_until is null or claimed_until < now())`;
    await sql`select pg_notify(${WEBHOOKS_CHANNEL}, '')`;
    changed({ resource: 'webhook', id: row.id, after: { redelivered: before.id } });
    const [delivery] = await deliveryRows(sql, row.id, { id: before.id });
    return { delivery: presentDelivery(delivery!) };
  },
});

/** Throws 409 where nothing can be delivered to a webhook now: it is disabled, or too much waits for it. */
async function requireDeliverable(sql: Query, teamId: string, { id: webhookId, enabled }: WebhookRow): Promise<void> {
  if (!enabled) throw new ApiError('webhook_disabled');
  if (!(await hasRoomForDelivery(sql, teamId, webhookId))) throw new ApiError('webhook_waiting_limit_reached');
}

/** Deliveries of a webhook: one, or the next ones before an id, newest first. */
async function deliveryRows(
  sql: Query,
  webhookId: string,
  which: { id: string } | { before: string; take: number },
): Promise<DeliveryRow[]> {
  const wanted =
    'id' in which ? sql`and d.id = ${which.id}` : which.before === '' ? sql`` : sql`and d.id < ${which.before}`;
  return sql<DeliveryRow[]>`
    select d.id, d.event_id, e.type, e.data, d.state, d.created_at, case when d.state = 'WAITING' then d.next_at end as next_try_at, tried.tries
    from webhook_deliveries d join webhook_events e on e.id = d.event_id
    cross join lateral (
      select coalesce(json_agg(json_strip_nulls(json_build_object('at', to_char(t.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'durationMs', t.duration_ms, 'status', t.status, 'error', t.error, 'answer', t.answer)) order by t.number), '[]') as tries
      from (select * from webhook_tries where delivery_id = d.id order by number desc limit ${MOST_TRIES}) t) tried
    where d.webhook_id = ${webhookId} ${wanted}
    order by d.id desc limit ${'take' in which ? which.take : 1}`;
}
