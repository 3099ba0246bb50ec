import { Type, type Static, type TObject } from 'typebox';
import { meterKinds, type MeterKind } from '../values/meter-kinds.ts';
import { alert } from './alerts.ts';
import { exampleOf } from './example.ts';
import { count, id, instant, named, object, plainText, signedCredits, timestamp, whole } from './schema-kinds.ts';
import { customerId, externalMeterId } from './schemas.ts';
import { webhookMeanings, type WebhookEventType } from './webhook-event-types.ts';

// What webhooks tell. Amounts are decimal text, times Unix milliseconds, as everywhere else.

const ofRecord = { billingId: id('billing record'), externalMeterId };
const credits = signedCredits('credits of it');
const ofGrant = {
  ...ofRecord,
  grantId: id('grant'),
  credits,
  name: Type.Optional(plainText(128, 'its name', 'top-up')),
  beginsAt: instant('when it begins, or began'),
  expiresAt: Type.Optional(instant('when it ends')),
};
const ofKey = {
  apiKeyId: id('API key'),
  name: plainText(128, 'its name', 'Acme'),
  maskedKey: plainText(128, 'its secret, masked', 'acme_17aT****gJpQ'),
  customerId: Type.Optional(customerId),
  externalMeterId: Type.Optional(externalMeterId),
  expiresAt: Type.Optional(instant('when it expires')),
};
const usedCredits = signedCredits('credits used, ever');
const daysLeft = count('days until its end', 7);
const eventId = id('event', ' of the books that did it');

const state = named(
  'CreditsData',
  object({ ...ofRecord, usedCredits, totalCredits: signedCredits('credits bought, ever') }),
);
const grant = named('GrantData', object(ofGrant));
const key = named('KeyData', object(ofKey));

/** The `data` of each type of event. Never a secret: a receiver, and whoever reads its logs, may know no key. */
export const webhookData = {
  'credits.alert': named('CreditsAlertData', object({ ...ofRecord, alert, usedCredits, eventId })),
  'credits.top_up_due': named(
    'TopUpDueData',
    object({
      ...ofRecord,
      topUpId: plainText(
        64,
        'its id, for the metadata of the payment: it is paid once',
        'alert_01kafc6v3nf0qtmhd7d5ryx2s9',
      ),
      amount: signedCredits('credits to buy'),
      below: signedCredits('the credits that were left, or fewer'),
      eventId,
    }),
  ),
  'credits.exhausted': state,
  'credits.replenished': state,
  'grant.began': grant,
  'grant.expiring': named('GrantExpiringData', object({ ...ofGrant, daysLeft })),
  'grant.expired': grant,
  'limit.reached': named(
    'LimitReachedData',
    object({
      limit: object({
        on: Type.Enum(['key', 'workspace', 'billing'], { description: 'whose limit it is' }),
        name: plainText(128, 'its name', 'daily'),
        per: plainText(16, 'its window', 'day'),
      }),
      windowStartsAt: instant('when the window began'),
      windowEndsAt: instant('when it ends'),
      apiKeyId: Type.Optional(ofKey.apiKeyId),
      billingId: Type.Optional(ofRecord.billingId),
      externalMeterId: Type.Optional(externalMeterId),
    }),
  ),
  'key.created': key,
  'key.rotated': key,
  'key.deleted': key,
  'key.expiring': named('KeyExpiringData', object({ ...ofKey, daysLeft })),
  'hold.expired': named(
    'HoldExpiredData',
    object({
      ...ofRecord,
      holdEventId: id('event', ' that held the credits; its characters stand in the id of the hold'),
      eventId,
      apiKeyId: ofKey.apiKeyId,
      credits,
      outcome: Type.Enum(['released', 'charged'], { description: 'what became of the credits' }),
    }),
  ),
  'books.different': named(
    'BooksDifferentData',
    object({
      ...ofRecord,
      status: Type.Enum(['MISSING', 'TOO_MUCH'], { description: 'what the balance is, by the books' }),
      difference: signedCredits('by how much'),
      heldDifference: signedCredits('by how much held credits differ'),
      grantsDifference: Type.Optional(
        signedCredits('what the account lacks of its grants, below 0: has too much; absent where they agree'),
      ),
    }),
  ),
  'month.closed': named(
    'MonthClosedData',
    object({
      month: plainText(7, 'the month of the whole workspace', '2026-11'),
      timezone: plainText(64, 'the zone of its days', 'Europe/Berlin'),
      records: count('how many billing records it has', 12),
    }),
  ),
  // Every try has failed since, or so many events have failed for good.
  'meter.failed': named(
    'MeterFailedData',
    object({
      destinationId: id('meter destination'),
      name: plainText(128, 'its name', 'Stripe'),
      kind: Type.Enum(Object.keys(meterKinds) as MeterKind[], { description: 'its kind' }),
      failedEvents: count('events that failed for good', 1),
      failingSince: Type.Optional(instant('since when every try failed')),
      error: plainText(2_048, 'why', '401: Invalid API Key'),
    }),
  ),
} as const satisfies Record<WebhookEventType, TObject>;

/** The same, where a field that may be absent may be undefined too. */
export type WebhookData = { [Type in WebhookEventType]: MaybeUndefined<Static<(typeof webhookData)[Type]>> };
type MaybeUndefined<Data> = {
  [Field in keyof Data]: Data[Field] | ({} extends Pick<Data, Field> ? undefined : never);
};

/** Something that happened once, which webhooks may want to be told. */
export type WebhookEvent<Type extends WebhookEventType = WebhookEventType> = {
  [Each in Type]: {
    type: Each;
    teamId: string;
    workspaceId: string;
    /** The billing record or key that it is about, else the workspace: what its `sequence` counts. */
    subjectId: string;
    /** What made it happen, unique among the events of its type and subject. A cause that comes again tells nothing. */
    cause: string;
    atMs: number;
    data: WebhookData[Each];
  };
}[Type];

/** What every event has besides its type and its data. */
export const eventFields = {
  timestamp: timestamp('when it happened'),
  sequence: whole('its number among those of one record, key or workspace', 3),
  workspaceId: Type.Optional(id('workspace')),
};

/** What a webhook of the OpenAPI document is posted, by type of event, and `webhook.test`. */
export function describeWebhooks() {
  const told = Object.entries(webhookData).map(([type, data]) =>
    describe(type, webhookMeanings[type as WebhookEventType], data),
  );
  const test = named('TestData', object({ message: plainText(64, 'what it says', 'This is a test.') }));
  return Object.fromEntries([...told, describe('webhook.test', 'you asked for it', test)]);
}

function describe(type: string, meaning: string, data: TObject) {
  const name = type.replace(/^./, upper).replaceAll(/\.(.)/g, (_, letter: string) => upper(letter));
  const schema = named(
    `${name}Event`,
    object({
      type: Type.Enum([type], { type: 'string' }),
      ...eventFields,
      data,
    }),
  );
  const example = exampleOf(schema, type);
  const post = {
    tags: ['Webhooks' as const],
    operationId: `on${name}`,
    summary: `${type}: ${meaning}`,
    security: [],
    parameters: ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => header(name)),
    requestBody: { required: true, content: { 'application/json': { schema, example } } },
    responses: {
      '2XX': { description: 'Taken: it does not come again' },
      410: { description: 'Gone: the webhook is disabled. After any other answer the event comes again' },
    },
  };
  return [type, { post }] as const;
}

const headers: Record<string, string> = {
  'webhook-id': 'the same at every try',
  'webhook-timestamp': 'when it was signed, in Unix seconds',
  'webhook-signature': '`v1,` and a signature as Standard Webhooks says; two with a blank between after a rotation',
};

function header(name: string) {
  return { name, in: 'header', required: true, description: headers[name], schema: { type: 'string' } };
}

function upper(text: string): string {
  return text.toUpperCase();
}
