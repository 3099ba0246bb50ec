// The trace of a call, on its way to the books. It is no part of the event: the script's line carries it, only where the call is
// traced, and it is taken out before anybody reads the event.

/** The field of an event's JSON, behind its id: a `traceparent` of W3C. */
const FIELD = 'z';
const TRACEPARENT = '00-[0-9a-f]{32}-[0-9a-f]{16}-01';
// Anchored, so that no text that a client chose can stand for it.
const TRACED = new RegExp(
  `^(\\{(?:"x":"(?:hold|capture|release|extension|correction)",)?"i":"[^"\\\\]*",)"${FIELD}":"(${TRACEPARENT})",(?="r":)`,
);
const HEADER = 'traceparent';
const WHOLE = new RegExp(`^${TRACEPARENT}$`);

/** What the beginning of an event's JSON has behind its id: nothing where its call is not traced. */
export function tracePart(trace: string): string {
  return trace === '' ? '' : `"${FIELD}":"${trace}",`;
}

/** An event's JSON without the trace, and the trace, where it has one. */
export function withoutTrace(json: string): { json: string; trace?: string } {
  const [part, before, trace] = TRACED.exec(json) ?? [];
  return trace === undefined ? { json } : { json: before! + json.slice(part!.length), trace };
}

/** The headers of an event's record in Kafka: those of W3C, where its call is traced. */
export function traceHeaders(trace: string | undefined): Record<string, string> {
  return trace === undefined ? {} : { [HEADER]: trace };
}

/** The trace that the headers of a record name, if they do. */
export function readTrace({ [HEADER]: header }: Record<string, unknown>): { trace?: string } {
  const trace = Buffer.isBuffer(header) ? header.toString('latin1') : '';
  return WHOLE.test(trace) ? { trace } : {};
}
