import { dayOf, decodeEvent, encodeEvent, eventFields, eventRow, type UsageEvent } from './event.ts';

/** An event on its way to the books: what is asked of it there, and its text to hand on. */
export type CarriedEvent = Pick<
  UsageEvent,
  'kind' | 'keyId' | 'billingId' | 'timeMs' | 'day' | 'sequence' | 'epoch' | 'number'
> & {
  json: string;
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
  if (!plain) return carryDecoded(decodeEvent(Buffer.from(json, 'latin1')));
  const [, time, keyId = '', billingId = '', sequence, epoch] = plain;
  const { timeMs: field } = eventFields;
  const timeMs = field.read(Number(time), field.json, 'verification');
  const [day, whole] = [dayOf(timeMs), { sequence: Number(sequence), epoch: Number(epoch) }];
  return { kind: 'verification', keyId, billingId, timeMs, day, ...whole, number: 0, json, row: '' };
}

/** An event that was decoded, to be handed on. */
export function carryDecoded(event: UsageEvent): CarriedEvent {
  const { kind, keyId, billingId, timeMs, day, sequence, epoch, number } = event;
  const json = encodeEvent(event);
  const row = JSON.stringify(eventRow(event));
  return { kind, keyId, billingId, timeMs, day, sequence, epoch, number, json, row };
}

/**
 * An event's row of usage_events: JSON of the values of `eventColumns`. That of a plain verification is cut from its JSON, value
 * by value: a tenth of the time of a replacement by the pattern.
 */
export function rowOf({ json, row, day }: CarriedEvent): string {
  if (row !== '') return row;
  let values = '["verification"';
  let at = BEFORE_VALUE;
  for (const kind of PLAIN_VALUES) {
    const end = kind === 'text' ? json.indexOf('"', at + 1) + 1 : json.indexOf(kind === 'last' ? '}' : ',', at);
    values += `,${json.slice(at, end)}`;
    at = end + BEFORE_VALUE;
  }
  return `${values},"${day}",0,"",""]`;
}

const ID = '[a-z]+_[0-7][0-9a-hjkmnp-tv-z]{25}';
// Printable ASCII without quote and backslash: in JSON the text is what it says.
const TEXT = '[ !#-\\[\\]-~]*';
// Fewer digits than the largest safe integer, or the largest epoch, has.
const WHOLE = '(?:0|[1-9]\\d{0,14})';
const EPOCH = '(?:0|[1-9]\\d{0,8})';

// In the order of `eventFields`. No part of it can match in two ways, so it never goes back.
const PLAIN_VERIFICATION = new RegExp(
  `^\\{"i":"${ID}","r":"${TEXT}","c":${WHOLE},"n":"${TEXT}","t":([1-9]\\d{12})` +
    `,"k":"(${ID})","b":"(${ID}|)","u":${WHOLE},"s":(${WHOLE}),"e":(${EPOCH})\\}$`,
);
// Brace or comma, a name of one letter between quotes, colon.
const BEFORE_VALUE = 5;
const PLAIN_VALUES = ['text', 'text', 'number', 'text', 'number', 'text', 'text', 'number', 'number', 'last'] as const;
