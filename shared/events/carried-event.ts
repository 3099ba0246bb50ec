import { withoutTrace } from './carried-trace.ts';
import { dayOf, decodeEvent, encodeEvent, eventFields, eventRow, type UsageEvent } from './event.ts';

/** An event on its way to the books: what is asked of it there, and its text to hand on. */
export type CarriedEvent = Pick<
  UsageEvent,
  'kind' | 'keyId' | 'billingId' | 'workspaceId' | 'customerId' | 'timeMs' | 'day' | 'sequence' | 'epoch' | 'number'
> & {
  json: string;
  /** The trace of its call, where that is traced. */
  trace?: string;
  /** Its row, unless `rowOf` makes it of the JSON: thousands of events wait in memory, and what they hold is what they cost. */
  row: string;
};

/** Reads an event from its JSON, to be handed on. Throws `UnreadableEvent`. */
export function carryEvent(value: Buffer | null | undefined): CarriedEvent {
  return value ? carryLine(value.toString('latin1')) : carryDecoded(decodeEvent(value));
}

/**
 * Reads an event from its JSON, a character for each byte. Throws `UnreadableEvent`.
 *
 * Nearly every event is a verification whose texts are plain ASCII. One pattern checks it as `decodeEvent` would, and its texts
 * stand in the row as they came: less work than to parse and write JSON. All others are decoded.
 */
export function carryLine(json: string): CarriedEvent {
  const plain = PLAIN_VERIFICATION.exec(json);
  if (!plain) return withoutTrace(json, carryLine) ?? carryDecoded(decodeEvent(Buffer.from(json, 'latin1')));
  const [, time, keyId = '', billingId = '', workspaceId = '', customerId = '', sequence, epoch] = plain;
  const { timeMs: field } = eventFields;
  const timeMs = field.read(Number(time), field.json, 'verification');
  const [day, whole] = [dayOf(timeMs), { sequence: Number(sequence), epoch: Number(epoch) }];
  const ids = { keyId, billingId, workspaceId, customerId };
  return { kind: 'verification', ...ids, timeMs, day, ...whole, number: 0, json, row: '' };
}

/** An event that was decoded, to be handed on. */
export function carryDecoded(event: UsageEvent): CarriedEvent {
  const { kind, keyId, billingId, workspaceId, customerId, timeMs, day, sequence, epoch, number } = event;
  const json = encodeEvent(event);
  const row = JSON.stringify(eventRow(event));
  return { kind, keyId, billingId, workspaceId, customerId, timeMs, day, sequence, epoch, number, json, row };
}

/** An event with the workspace and the customer that its JSON lacks. Its JSON stays as the script wrote it. */
export function withOwner(event: CarriedEvent, owner: Pick<UsageEvent, 'workspaceId' | 'customerId'>): CarriedEvent {
  const row = JSON.stringify(eventRow({ ...decodeEvent(event.json), ...owner }));
  return { ...event, ...owner, row };
}

/**
 * An event's row of usage_events: JSON of the values of `eventColumns`. That of a plain verification is cut from its JSON, value
 * by value: a tenth of the time of a replacement by the pattern.
 */
export function rowOf({ json, row, day }: CarriedEvent): string {
  if (row !== '') return row;
  let values = '["verification"';
  let at = BEFORE_VALUE;
  for (const [name, kind] of PLAIN_VALUES) {
    if (json[at - AFTER_NAME] !== name) {
      values += ',""';
      continue;
    }
    const end = kind === 'text' ? json.indexOf('"', at + 1) + 1 : json.indexOf(kind === 'last' ? '}' : ',', at);
    values += `,${json.slice(at, end)}`;
    at = end + BEFORE_VALUE;
  }
  return `${values},"${day}",0,"","",0,"",0,"",""]`;
}

const ID = '[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}';
// Printable ASCII without quote and backslash: in JSON the text is what it says.
const TEXT = '[ !#-\\[\\]-~]*';
const SOME_TEXT = '[ !#-\\[\\]-~]+';
// Fewer digits than the largest safe integer, or the largest epoch, has.
const WHOLE = '(?:0|[1-9]\\d{0,14})';
const EPOCH = '(?:0|[1-9]\\d{0,8})';

// In the order of `eventFields`. No part of it can match in two ways, so it never goes back.
const PLAIN_VERIFICATION = new RegExp(
  `^\\{"i":"${ID}","r":"${TEXT}","c":${WHOLE},"n":"${TEXT}","t":([1-9]\\d{12})` +
    `,"k":"(${ID})","b":"(${ID}|)"(?:,"v":"(${ID})")?(?:,"p":"(${SOME_TEXT})")?,"u":${WHOLE},"s":(${WHOLE}),"e":(${EPOCH})\\}$`,
);
// Brace or comma, a name of one letter between quotes, colon.
const BEFORE_VALUE = 5;
const AFTER_NAME = 3;
// In the order of `eventFields`; a text that is not there is empty.
const PLAIN_VALUES = [
  ...([
    ['i', 'text'],
    ['r', 'text'],
    ['c', 'number'],
    ['n', 'text'],
    ['t', 'number'],
  ] as const),
  ...([
    ['k', 'text'],
    ['b', 'text'],
    ['v', 'text'],
    ['p', 'text'],
  ] as const),
  ...([
    ['u', 'number'],
    ['s', 'number'],
    ['e', 'last'],
  ] as const),
] as const;
