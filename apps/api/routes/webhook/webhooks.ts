import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { named, object } from '../../../../shared/contract/schema-kinds.ts';
import { WEBHOOKS_CHANNEL } from '../../../../shared/stores/notify-webhooks.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { newWebhookSecret, webhookSecretPlace } from '../../../../shared/values/webhook-secret.ts';
import { listRoute } from '../../http/pages.ts';
import { route } from '../../http/route.ts';
import { requireWholeTeam, requireWorkspace, withinSight } from '../../resources/access/access.ts';
import { lockName } from '../../resources/rows.ts';
import { newSecret, requireTarget, webhooks, webhook, type WebhookRow } from '../../resources/webhooks.ts';

const MOST_WEBHOOKS = 20;

const { url, events, workspaceId, description } = webhook.properties;
const newWebhook = named('NewWebhook', object({ ...webhook.properties, secret: newSecret('the secret that signs') }));

export const createWebhook = route('post', '/api/v1/webhook', {
  summary: 'Have events posted to a URL; only this answer contains the secret that signs them',
  description: 'It gets what happens from now on, in one workspace or, without `workspaceId`, in all of the team.',
  permission: 'webhook:write',
  status: 201,
  body: object({ url, events, workspaceId, description }),
  response: object({ webhook: newWebhook }),
  errors: ['workspace_forbidden', 'webhook_limit_reached'],

  async handle({ sql, body, caller, changed, webhooks: { allowedTargets, sealer } }) {
    requireTarget(body.url, caller, allowedTargets);
    if (body.workspaceId === undefined) requireWholeTeam(caller);
    else await requireWorkspace(sql, caller, body.workspaceId, { hold: true });
    await lockName(sql, `webhooks of ${caller.teamId}`);
    const isOfTeam = sql`team_id = ${caller.teamId} and deleted_at is null`;
    await webhooks.requireFew(sql, isOfTeam, MOST_WEBHOOKS, 'webhook_limit_reached');

    const webhookId = newId('hook');
    const secret = newWebhookSecret();
    const row = await webhooks.insert(sql, {
      id: webhookId,
      teamId: caller.teamId,
      ...body,
      secretSealed: sealer.seal(secret, webhookSecretPlace(webhookId)),
      sealedUnder: sealer.keyName,
    });
    return { webhook: { ...webhooks.say(changed, { after: row }), secret } };
  },
});

export const listWebhooks = listRoute('/api/v1/webhook', 'webhooks', webhook, {
  summary: 'List the webhooks, oldest first',
  description: 'A token that is limited to workspaces sees those of its workspaces.',
  permission: 'webhook:read',

  async open({ sql, caller }) {
    return webhooks.list(sql, withinSight(sql, caller));
  },
});

export const getWebhook = route('get', '/api/v1/webhook/{wid}', {
  summary: 'Get a webhook, without its secret',
  description: 'Says since when it fails, and why it was disabled.',
  permission: 'webhook:read',
  response: object({ webhook }),

  async handle({ sql, params, caller }) {
    return { webhook: webhooks.present(await webhooks.require(sql, params.wid, withinSight(sql, caller))) };
  },
});

export const updateWebhook = route('patch', '/api/v1/webhook/{wid}', {
  summary: 'Enable or disable a webhook, or change its URL or events',
  description:
    'While it is disabled, it is told nothing; what waited is delivered once it is enabled again, if that is within 30 days.',
  permission: 'webhook:write',
  body: object({
    enabled: Type.Optional(Type.Boolean({ description: 'whether events are delivered', examples: [true] })),
    events: Type.Optional(events),
    url: Type.Optional(url),
  }),
  response: object({ webhook }),

  async handle({ sql, params, body, caller, changed, webhooks: { allowedTargets } }) {
    const before = await webhooks.require(sql, params.wid, withinSight(sql, caller), { lock: true });
    const { enabled = before.enabled, events = before.events, url = before.url } = body;
    if (url !== before.url) requireTarget(url, caller, allowedTargets);
    const disabled = enabled ? null : (before.disabledReason ?? 'REQUESTED');
    // Another place, or another chance: what failed before says nothing about it.
    const begins = url !== before.url || (enabled && !before.enabled);
    const [row] = await sql<[WebhookRow]>`
      update webhooks
      set enabled = ${enabled}, events = ${events}, url = ${url}, disabled_reason = ${disabled},
          disabled_at = case when not ${enabled} then coalesce(disabled_at, now()) end,
          failing_since = case when not ${begins} then failing_since end, is_slow = is_slow and not ${begins}, updated_at = now()
      where id = ${before.id} returning ${webhooks.columns(sql)}`;
    if (begins) await sql`select pg_notify(${WEBHOOKS_CHANNEL}, '')`;
    return { webhook: webhooks.say(changed, { before, after: row }) };
  },
});

export const rotateWebhookSecret = route('post', '/api/v1/webhook/{wid}/rotate', {
  summary: 'Give a webhook a new secret; only this answer contains it',
  description:
    'For 24 hours the earlier secret signs too, so a receiver may change over in between. Until then another rotation is refused: a receiver that still has the earlier secret would lose it.',
  permission: 'webhook:write',
  bodyOptional: true,
  body: object({
    replaceLatest: Type.Optional(
      Type.Boolean({
        description:
          'within 24 hours of a rotation: replaces the secret that it made, at once; the one before still signs until its 24 hours are over',
        examples: [true],
      }),
    ),
  }),
  response: object({ webhook: newWebhook }),
  errors: ['webhook_rotated'],

  async handle({ sql, params, body, caller, changed, webhooks: { sealer } }) {
    const before = await webhooks.require(sql, params.wid, withinSight(sql, caller), { lock: true });
    const place = webhookSecretPlace(before.id);
    const [{ sealed, previous }] = await sql<[{ sealed: Buffer; previous: Buffer | null }]>`
      select secret_sealed as sealed, case when previous_until > now() then previous_sealed end as previous from webhooks where id = ${before.id}`;
    if (previous && !body.replaceLatest) throw new ApiError('webhook_rotated');
    const secret = newWebhookSecret();
    // Sealed again: the earlier one may be under an earlier master key.
    const earlier = sealer.seal(sealer.unseal(previous ?? sealed, place), place);
    const [row] = await sql<[WebhookRow]>`
      update webhooks
      set secret_sealed = ${sealer.seal(secret, place)}, previous_sealed = ${earlier},
          previous_until = case when previous_until > now() then previous_until else now() + interval '24 hours' end,
          sealed_under = ${sealer.keyName}, updated_at = now()
      where id = ${before.id} returning ${webhooks.columns(sql)}`;
    return { webhook: { ...webhooks.say(changed, { before, after: row }), secret } };
  },
});

export const deleteWebhook = route('delete', '/api/v1/webhook/{wid}', {
  summary: 'Delete a webhook with its secret and its deliveries, also those that wait',
  description: 'A try that is under way may still arrive.',
  permission: 'webhook:write',
  response: object({ webhook }),

  async handle({ sql, params, caller, changed }) {
    const before = await webhooks.require(sql, params.wid, withinSight(sql, caller), { lock: true });
    await webhooks.end(sql, changed, [before]);
    return { webhook: webhooks.present(before) };
  },
});
