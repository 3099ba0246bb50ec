import { Type } from 'typebox';
import type { Caller } from '../../../shared/contract/caller.ts';
import { invalidField } from '../../../shared/contract/errors.ts';
import {
  id,
  named,
  object,
  plainText,
  someOf,
  textOf,
  timestamp,
  whole,
} from '../../../shared/contract/schema-kinds.ts';
import { webhookEventTypes } from '../../../shared/contract/webhook-event-types.ts';
import { allowedFor, readWebhookTarget, type AllowedTarget } from '../../../shared/values/webhook-target.ts';
import { resourceOf, type Row } from './rows.ts';

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

export const webhooks = resourceOf('webhook', webhook, 'webhook_not_found', { missedEvents: 'missed' }, [], {
  enabled: false,
  secretSealed: null,
  previousSealed: null,
  previousUntil: null,
});

/** A secret that signs what is posted. */
export function newSecret(what: string) {
  const example = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfhcnAMPLE=';
  return plainText(64, `${what}: only this answer contains it`, example);
}

/** Throws 400 for a URL that is not one to call. */
export function requireTarget(url: string, { teamId }: Caller, allowedTargets: readonly AllowedTarget[]): void {
  const target = readWebhookTarget(url, allowedFor(teamId, allowedTargets));
  if (typeof target === 'string') throw invalidField('/url', target);
}
