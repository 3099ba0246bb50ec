import { isId } from '../values/ids.ts';

export const eventKinds = ['verification', 'adjustment', 'settlement', 'witness'] as const;
export type EventKind = (typeof eventKinds)[number];

/**
 * One line of the books, as a script stamped it; it never changes afterwards. A verification that was VALID; an adjustment
 * of used credits; a settlement, which tells a balance that Redis took over from the books; or a witness, which tells
 * the balance of a verification that Redis has lost.
 */
export type UsageEvent = {
  kind: EventKind;
  id: string;
  timeMs: number;
  /** The UTC day of its time, of an adjustment the one that it is booked on. */
  day: string;
  /** Empty but for a verification. */
  keyId: string;
  /** Empty when the key is not metered. */
  billingId: string;
  usageName: string;
  /** Negative for an adjustment that gives credits back. */
  costMicros: number;
  /** The billing record's used micro-credits after this event. */
  usedMicros: number;
  epoch: number;
  /** Of an adjustment, that of the event before it. */
  sequence: number;
  /** Of an adjustment, its own number within the record, from 1; else 0. */
  number: number;
  route: string;
  /** Access token of an adjustment, and why it was made. */
  actor: string;
  reason: string;
};

/** An entry that is no event; the message names the field and never its content. */
export class UnreadableEvent extends Error {}

type Begun = { kind: EventKind; id: string; billingId: string } & Partial<
  Pick<
    UsageEvent,
    'usageName' | 'costMicros' | 'day' | 'number' | 'reason' | 'actor' | 'usedMicros' | 'epoch' | 'sequence'
  >
>;

/** The JSON of an event that is no verification, without its end: a script goes on with what only it knows. */
export function beginEvent(event: Begun): string {
  const { kind, id, billingId, usageName = '', costMicros = 0, day, number, reason, actor } = event;
  const { usedMicros, epoch, sequence } = event;
  const fields = {
    x: kind,
    i: id,
    b: billingId,
    n: usageName,
    c: costMicros,
    k: '',
    r: '',
    d: day,
    a: number,
    w: actor,
    y: reason,
  };
  return JSON.stringify({ ...fields, u: usedMicros, e: epoch, s: sequence }).slice(0, -1);
}

/** The one field of an entry in the outbox; its value is the event as JSON, and so is a value in Kafka. */
export const EVENT_FIELD = 'e';

/** Reads an entry of the outbox: names and values in turn. Throws `UnreadableEvent`. */
export function readEvent(fields: readonly string[]): UsageEvent {
  const [name, value] = fields;
  if (name !== EVENT_FIELD || fields.length !== 2)
    throw new UnreadableEvent(`the entry is not one field ${EVENT_FIELD}`);
  return decodeEvent(value);
}

/** An event as JSON, a verification exactly as verify.lua writes it: the same event is always the same bytes. */
export function encodeEvent(event: UsageEvent): string {
  const { id: i, route: r, costMicros: c, usageName: n, timeMs: t } = event;
  const { keyId: k, billingId: b, usedMicros: u, sequence: s, epoch: e } = event;
  const { kind, day: d, number: a, actor: w, reason: y } = event;
  const line = { i, r, c, n, t, k, b, u, s, e };
  if (kind === 'verification') return JSON.stringify(line);
  return JSON.stringify({ x: kind, ...line, ...(kind === 'adjustment' && { d, a, w, y }) });
}

/** Reads an event from its JSON. Throws `UnreadableEvent`. */
export function decodeEvent(value: Buffer | string | null | undefined): UsageEvent {
  if (value === null || value === undefined) throw new UnreadableEvent('there is no value');
  let given: unknown;
  try {
    given = JSON.parse(value.toString());
  } catch {
    throw new UnreadableEvent('the value is not JSON');
  }
  if (typeof given !== 'object' || given === null) throw new UnreadableEvent('the value is not a JSON object');
  return fromFields(given as Record<string, unknown>);
}

function fromFields(given: Record<string, unknown>): UsageEvent {
  const kind = eventKinds.find((one) => one === (given['x'] ?? 'verification'));
  if (!kind) throw new UnreadableEvent('field x is not a kind');
  const eventId = id(given, 'i');
  const timeMs = whole(given, 't', EARLIEST_MS, LATEST_MS);
  const least = kind === 'adjustment' ? -Number.MAX_SAFE_INTEGER : 0;
  const adjusts = kind === 'adjustment';
  return {
    kind,
    id: eventId,
    timeMs,
    day: adjusts ? dayText(given, 'd') : dayOf(timeMs),
    keyId: kind === 'verification' ? id(given, 'k') : '',
    billingId: kind === 'verification' && given.b === '' ? '' : id(given, 'b'),
    usageName: text(given, 'n'),
    costMicros: whole(given, 'c', least, Number.MAX_SAFE_INTEGER),
    // What was given back before what was used is known again leaves less than nothing for a while.
    usedMicros: whole(given, 'u', -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
    epoch: whole(given, 'e', 0, 2 ** 32 - 1),
    sequence: whole(given, 's', 0, Number.MAX_SAFE_INTEGER),
    number: adjusts ? whole(given, 'a', 1, 2 ** 32 - 1) : 0,
    route: text(given, 'r'),
    actor: adjusts ? text(given, 'w') : '',
    reason: adjusts ? text(given, 'y') : '',
  };
}

/** The UTC day of an instant, `YYYY-MM-DD`. */
export function dayOf(timeMs: number): string {
  const number = Math.floor(timeMs / DAY_MS);
  // Asked for every event, and nearly always the same.
  if (number !== lastDay.number) lastDay = { number, text: new Date(timeMs).toISOString().slice(0, 10) };
  return lastDay.text;
}

/** The columns of usage_events that `eventRow` fills, in its order. */
export const eventColumns: [string, ...string[]] = [
  ...(['billing_id', 'day', 'event_id', 'kind', 'key_id', 'usage_name', 'cost_micros', 'used_micros'] as const),
  ...(['epoch', 'seq', 'number', 'route', 'actor', 'reason', 'time'] as const),
];

/** An event as a row of usage_events (JSONCompactEachRow: half of what JSONEachRow costs both sides). */
export function eventRow(event: UsageEvent): (string | number)[] {
  return [
    event.billingId,
    event.day,
    event.id,
    event.kind,
    event.keyId,
    event.usageName,
    event.costMicros,
    event.usedMicros,
    event.epoch,
    event.sequence,
    event.number,
    event.route,
    event.actor,
    event.reason,
    new Date(event.timeMs).toISOString().slice(0, 23),
  ];
}

const DAY_MS = 86_400_000;
let lastDay = { number: NaN, text: '' };

// What ClickHouse's Date holds ends in 2149; before 2020 nothing of this was there.
const EARLIEST_MS = Date.UTC(2020, 0);
const LATEST_MS = Date.UTC(2149, 0);

function text(given: Record<string, unknown>, name: string): string {
  const value = given[name];
  if (typeof value !== 'string') throw new UnreadableEvent(`field ${name} is missing`);
  return value;
}

function id(given: Record<string, unknown>, name: string): string {
  const value = text(given, name);
  if (!isId(value)) throw new UnreadableEvent(`field ${name} is not an id`);
  return value;
}

function dayText(given: Record<string, unknown>, name: string): string {
  const value = text(given, name);
  if (!/^\d{4}-\d\d-\d\d$/.test(value)) throw new UnreadableEvent(`field ${name} is not a day`);
  return value;
}

function whole(given: Record<string, unknown>, name: string, min: number, max: number): number {
  const value = given[name];
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw new UnreadableEvent(`field ${name} is not a whole number of its range`);
}
