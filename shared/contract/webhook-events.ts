import type { Alert } from './alerts.ts';
import type { MeterKind } from '../values/meter-kinds.ts';
import type { WebhookEventType } from './webhook-event-types.ts';

// What webhooks tell. Amounts are decimal text, times Unix milliseconds, as everywhere else.

type OfRecord = { billingId: string; externalMeterId: string };
type OfGrant = OfRecord & {
  grantId: string;
  credits: string;
  name?: string | undefined;
  beginsAt: number;
  expiresAt?: number | undefined;
};
type OfKey = {
  apiKeyId: string;
  name: string;
  maskedKey: string;
  customerId?: string | undefined;
  externalMeterId?: string | undefined;
  expiresAt?: number | undefined;
};

/** The `data` of each type of event. Never a secret: a receiver, and whoever reads its logs, may know no key. */
export type WebhookData = {
  'credits.alert': OfRecord & { alert: Alert; usedCredits: string; eventId: string };
  'credits.exhausted': OfRecord & { usedCredits: string; totalCredits: string };
  'credits.replenished': OfRecord & { usedCredits: string; totalCredits: string };
  'grant.began': OfGrant;
  'grant.expiring': OfGrant & { daysLeft: number };
  'grant.expired': OfGrant;
  'limit.reached': {
    limit: { on: 'key' | 'workspace' | 'billing'; name: string; per: string };
    windowStartsAt: number;
    windowEndsAt: number;
    apiKeyId?: string | undefined;
    billingId?: string | undefined;
    externalMeterId?: string | undefined;
  };
  'key.created': OfKey;
  'key.rotated': OfKey;
  'key.deleted': OfKey;
  'key.expiring': OfKey & { daysLeft: number };
  /** `holdEventId` names the event that held the credits; its characters stand in the hold's id. */
  'hold.expired': OfRecord & {
    holdEventId: string;
    eventId: string;
    apiKeyId: string;
    credits: string;
    outcome: 'released' | 'charged';
  };
  'books.different': OfRecord & {
    status: 'MISSING' | 'TOO_MUCH';
    difference: string;
    heldDifference: string;
    /** What the account lacks of its grants; negative: has too much. Absent where they agree. */
    grantsDifference?: string | undefined;
  };
  /** `of` is the workspace's whole month. */
  'month.closed': { month: string; timezone: string; records: number };
  /** Usage that does not reach a destination: every try has failed since, or so many events have failed for good. */
  'meter.failed': {
    destinationId: string;
    name: string;
    kind: MeterKind;
    failedEvents: number;
    failingSince?: number | undefined;
    error: string;
  };
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
