import { Webhook } from 'standardwebhooks';
import { formatCredits } from '../../shared/values/credits.ts';
import { derivedId } from '../../shared/values/ids.ts';
import { HOUR_MS, meterKind, meterValue, type MeterKind } from '../../shared/values/meter-kinds.ts';
import { DAY_MS } from '../../shared/values/periods.ts';
import type { Outcome } from './call.ts';

/** A destination that this process alone sends to until `claimedUntil`. */
export type ClaimedDestination = {
  id: string;
  teamId: string;
  workspaceId: string;
  kind: MeterKind;
  url: string;
  unitMicros: number;
  batchSize: number;
  secretSealed: Buffer | null;
  claimedUntil: string;
  attempts: number;
};

/** An event that waits; `before`: since when the destination may have it, although nobody knows. */
export type WaitingEvent = {
  id: string;
  billingId: string;
  hourMs: number;
  usageName: string;
  number: number;
  micros: number;
  events: number;
  quantity: number;
  externalId: string;
  eventName: string;
  before: Date | null;
};

type Message = { headers: Record<string, string>; body: string };

/** What an event is known by at its destination: the same at every try. */
export function identityOf(destinationId: string, { billingId, hourMs, usageName, number }: WaitingEvent): string {
  return derivedId('mtr', destinationId, billingId, String(hourMs), usageName, String(number));
}

/** The request that tells a destination of events, in the form of its kind. */
export function requestOf(
  destination: ClaimedDestination,
  events: readonly WaitingEvent[],
  secret: string | undefined,
  now: Date,
): Message {
  const { kind, batchSize } = destination;
  const bearer = secret === undefined || kind === 'http' ? {} : { authorization: `Bearer ${secret}` };
  const common = { 'user-agent': 'keytally-meters', ...bearer };
  const json = (type: string, value: unknown): Message => ({
    headers: { ...common, 'content-type': type },
    body: JSON.stringify(value),
  });
  switch (kind) {
    case 'stripe':
      return { headers: { ...common, 'content-type': FORM }, body: formOf(destination, events[0]!) };
    case 'openmeter':
    case 'cloudevents': {
      const all = events.map((event) => cloudEventOf(destination, event));
      return batchSize === 1
        ? json('application/cloudevents+json', all[0])
        : json('application/cloudevents-batch+json', all);
    }
    case 'lago':
      return json('application/json', { events: events.map((event) => lagoEventOf(destination, event)) });
    case 'http': {
      const all = events.map((event) => {
        const { billingId, usageName, externalId, eventName } = event;
        const identity = identityOf(destination.id, event);
        return {
          identity,
          billingId,
          usageName,
          externalId,
          eventName,
          time: timeOf(event).toISOString(),
          ...amountsOf(event),
        };
      });
      const body = JSON.stringify({ type: 'meter.events', timestamp: now.toISOString(), data: { events: all } });
      // The same events have the same id; those of another request have their own identities still.
      const id = derivedId('msg', ...all.map(({ identity }) => identity));
      const headers = {
        ...common,
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
        'webhook-signature': new Webhook(secret!).sign(id, now, body),
      };
      return { headers, body };
    }
    default:
      return kind satisfies never;
  }
}

const FORM = 'application/x-www-form-urlencoded';

// The last second of its hour: a subscription that begins within the hour has it, and for none is it in the future.
function timeOf({ hourMs }: WaitingEvent): Date {
  return new Date(hourMs + HOUR_MS - 1_000);
}

function amountsOf({ micros, events }: WaitingEvent) {
  return { credits: formatCredits(micros), events };
}

function formOf(destination: ClaimedDestination, event: WaitingEvent): string {
  return new URLSearchParams({
    event_name: event.eventName,
    identifier: identityOf(destination.id, event),
    timestamp: String(timeOf(event).getTime() / 1000),
    'payload[stripe_customer_id]': event.externalId,
    'payload[value]': meterValue(destination.kind, event.quantity, destination.unitMicros),
  }).toString();
}

function cloudEventOf(destination: ClaimedDestination, event: WaitingEvent) {
  return {
    specversion: '1.0',
    id: identityOf(destination.id, event),
    source: `keytally/${destination.workspaceId}`,
    type: event.eventName,
    subject: event.externalId,
    time: timeOf(event).toISOString(),
    datacontenttype: 'application/json',
    data: { ...amountsOf(event), usageName: event.usageName, billingId: event.billingId },
  };
}

function lagoEventOf(destination: ClaimedDestination, event: WaitingEvent) {
  return {
    transaction_id: identityOf(destination.id, event),
    external_subscription_id: event.externalId,
    code: event.eventName,
    timestamp: timeOf(event).getTime() / 1000,
    properties: amountsOf(event),
  };
}

/** What an answer says: it has them; it refuses these events; or it takes nothing now, as far as is known. */
export type Verdict = 'accepted' | 'refused' | 'not now' | 'unknown';

// Of these the events are to blame, of all others from 400 on the destination or its settings.
const REFUSED = new Set([400, 409, 413, 422]);
// Stripe's and Lago's words for an identity that they have.
const KNOWN = /already exists with identifier|value_already_exist/;

/** Judges the answer to a request of one event, or of several. */
export function judge({ status, error, isUnsent, answer = '' }: Outcome, isOne: boolean): Verdict {
  if (isUnsent) return 'not now';
  if (status === undefined || error !== undefined || status >= 500) return 'unknown';
  if (status >= 200 && status < 300) return 'accepted';
  if (!REFUSED.has(status)) return 'not now';
  return isOne && KNOWN.test(answer) ? 'accepted' : 'refused';
}

/** Why an event can't be sent any more; undefined: it can. */
export function tooLate(kind: MeterKind, event: WaitingEvent, nowMs: number): string | undefined {
  const { pastMs = Infinity, remembersMs = Infinity } = meterKind(kind);
  if (timeOf(event).getTime() < nowMs - pastMs)
    return `its hour is further back than ${pastMs / DAY_MS} days, the most that ${kind} takes`;
  if (event.before && event.before.getTime() < nowMs - remembersMs)
    return `a try had no answer, and ${kind} no longer knows its identity: it may have the event. Look there before you send it again`;
  return undefined;
}
