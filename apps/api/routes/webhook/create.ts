import { Type } from 'typebox';
import { ApiError } from '../../../../shared/contract/errors.ts';
import { id, object } from '../../../../shared/contract/schema-kinds.ts';
import { newId } from '../../../../shared/values/ids.ts';
import { newWebhookSecret, webhookSecretPlace } from '../../../../shared/values/webhook-secret.ts';
import { route } from '../../http/route.ts';
import { requireWholeTeam, requireWorkspace } from '../../resources/access/access.ts';
import {
  description,
  MOST_WEBHOOKS,
  newWebhook,
  presentWebhook,
  requireTarget,
  webhookColumns,
  webhookEvents,
  webhookUrl,
  type WebhookRow,
} from '../../resources/webhooks.ts';

export default route({
  method: 'post',
  path: '/api/v1/webhook',
  tag: 'Webhooks',
  operationId: 'createWebhook',
  summary: 'Have events posted to a URL; only this answer contains the secret that signs them',
  description: 'It gets what happens from now on, in one workspace or, without `workspaceId`, in all of the team.',
  permission: 'webhook:write',
  status: 201,
  writes: true,
  body: object({
    url: webhookUrl,
    events: webhookEvents,
    workspaceId: Type.Optional(id('workspace', ' whose events it gets; absent: those of all')),
    description: Type.Optional(description),
  }),
  response: object({ webhook: newWebhook }),
  errors: ['workspace_forbidden', 'webhook_limit_reached'],

  async handle({ sql, body, caller, audit, webhooks: { allowedTargets, sealer } }) {
    requireTarget(body.url, caller, allowedTargets);
    if (body.workspaceId === undefined) requireWholeTeam(caller);
    else await requireWorkspace(sql, caller, body.workspaceId, { hold: true });
    // One at a time for each team, so that two at once see each other.
    await sql`select pg_advisory_xact_lock(hashtextextended(${`webhooks of ${caller.teamId}`}, 0))`;
    const [{ webhooks }] = await sql<[{ webhooks: number }]>`
      select count(*)::int as webhooks from webhooks where team_id = ${caller.teamId} and deleted_at is null`;
    if (webhooks >= MOST_WEBHOOKS) throw new ApiError('webhook_limit_reached');

    const webhookId = newId('hook');
    const secret = newWebhookSecret();
    const [row] = await sql<[WebhookRow]>`
      insert into webhooks (id, team_id, workspace_id, url, events, description, secret_sealed, sealed_under)
      values (${webhookId}, ${caller.teamId}, ${body.workspaceId ?? null}, ${body.url}, ${body.events}, ${body.description ?? null},
              ${sealer.seal(secret, webhookSecretPlace(webhookId))}, ${sealer.keyName})
      returning ${webhookColumns(sql)}`;
    const made = presentWebhook(row);
    audit('webhook', webhookId, undefined, made);
    return { webhook: { ...made, secret } };
  },
});
