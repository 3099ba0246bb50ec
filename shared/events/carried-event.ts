import { withoutTrace } from './carried-trace.ts';
import type { LogPlace } from './log-place.ts';
import { decodeEvent, encodeEvent, eventRow, type UsageEvent } from './event.ts';

/** An event on its way to the books: what is asked of it there, and its text to hand on. */
export type CarriedEvent = Pick<
  UsageEvent,
  'kind' | 'keyId' | 'billingId' | 'workspaceId' | 'customerId' | 'timeMs' | 'day' | 'sequence' | 'epoch' | 'number'
> & {
  json: string;
  /** The trace of its call, where that is traced. */
  trace?: string;
  /** Where it came from. */
  place?: LogPlace;
  /** Its row of usage_events: JSON of the values of `eventColumns`. */
  row: string;
};

/** Reads an event from its JSON, to be handed on as it came, but for its trace. Throws `UnreadableEvent`. */
export function carryEvent(value: Buffer | null | undefined): CarriedEvent {
  const text = value?.toString();
  const event = decodeEvent(text);
  const { json, trace } = withoutTrace(text!);
  return { ...carried(event, json), ...(trace && { trace }) };
}

/** An event that was decoded, to be handed on. */
export function carryDecoded(event: UsageEvent): CarriedEvent {
  return carried(event, encodeEvent(event));
}

/** An event with the workspace and the customer that its JSON lacks. Its JSON stays as the script wrote it. */
export function withOwner(event: CarriedEvent, owner: Pick<UsageEvent, 'workspaceId' | 'customerId'>): CarriedEvent {
  const row = JSON.stringify(eventRow({ ...decodeEvent(event.json), ...owner }));
  return { ...event, ...owner, row };
}

function carried(event: UsageEvent, json: string): CarriedEvent {
  const { kind, keyId, billingId, workspaceId, customerId, timeMs, day, sequence, epoch, number } = event;
  const row = JSON.stringify(eventRow(event));
  return { kind, keyId, billingId, workspaceId, customerId, timeMs, day, sequence, epoch, number, json, row };
}
