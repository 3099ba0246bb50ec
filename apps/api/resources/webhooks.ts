import { Type } from 'typebox';
import { id, named, object, someOf, textOf, timestamp, whole } from '../../../shared/contract/schema-kinds.ts';
import { webhookEventTypes } from '../../../shared/contract/webhook-event-types.ts';
import type { Query } from '../../../shared/stores/postgres.ts';
import type { SayChanged } from './record.ts';
import { resourceOf, type Row } from './rows.ts';

/** A webhook as the API answers it. */
export const webhook = named(
  'Webhook',
  object({
    id: id('webhook'),
    url: Type.String({
      minLength: 1,
      maxLength: 2_048,
      description: 'where events are posted: `https://`, with the name of a host that can be reached from outside',
      examples: ['https://hooks.example.com/keytally'],
    }),
    events: someOf(webhookEventTypes, {
      minItems: 1,
      description: 'the types of events that it gets',
      examples: [['credits.alert', 'credits.exhausted']],
    }),
    workspaceId: Type.Optional(id('workspace', ' whose events it gets; absent: those of all')),
    description: Type.Optional(textOf(256, 'what it is for', 'finance chat')),
    enabled: Type.Boolean({ examples: [true] }),
    disabledReason: Type.Optional(
      Type.Enum(['REQUESTED', 'GONE', 'FAILING'], {
        description: 'why it is not enabled: a request, an answer 410, or five days of failures',
      }),
    ),
    disabledAt: Type.Optional(timestamp('when it was disabled')),
    failingSince: Type.Optional(timestamp('since when every try failed')),
    missedEvents: whole('events that it did not get, because too many were waiting', 0),
    createdAt: timestamp('when it was made'),
    updatedAt: timestamp('when its settings last changed'),
  }),
);

export type WebhookRow = Row<typeof webhook>;

export const webhooks = resourceOf('webhooks', webhook, 'webhook_not_found', { missedEvents: 'missed' });

/** Deletes webhooks whose rows are locked. The consumer removes their deliveries, which may be many. */
export async function deleteWebhooks(sql: Query, changed: SayChanged, rows: readonly WebhookRow[]): Promise<void> {
  await sql`
    update webhooks set deleted_at = now(), enabled = false, secret_sealed = null, previous_sealed = null, previous_until = null
    where id = any(${rows.map((row) => row.id)})`;
  for (const row of rows) changed('webhook', row.id, { before: webhooks.present(row) });
}
