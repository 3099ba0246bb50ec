import { readTrace, traceHeaders, withoutTrace } from './carried-trace.ts';
import { decodeEvent, type UsageEvent } from './event.ts';
import { placeHeaders, readPlace, type LogPlace } from './log-place.ts';

/** An event on its way to the books. */
export type CarriedEvent = UsageEvent & {
  /** Its JSON as it came, but for its trace: to be handed on. */
  json: string;
  /** The trace of its call, where that is traced. */
  trace?: string;
  /** Where it came from. */
  place?: LogPlace;
};

/** Reads an event from its JSON. Throws `UnreadableEvent`. */
export function carryEvent(value: Buffer | null | undefined): CarriedEvent {
  const text = value?.toString();
  return Object.assign(decodeEvent(text), withoutTrace(text!));
}

/** What the headers of its record in Kafka say of an event, as `headersOf` wrote them. */
export function readHeaders(headers: Record<string, unknown>): Pick<CarriedEvent, 'place' | 'trace'> {
  return { ...readTrace(headers), ...readPlace(headers) };
}

/** What the headers of its record in Kafka say of an event. */
export function headersOf({ place, trace }: Pick<CarriedEvent, 'place' | 'trace'>): Record<string, string> {
  return { ...placeHeaders(place), ...traceHeaders(trace) };
}
