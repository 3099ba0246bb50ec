import { isId } from './ids.ts';

/** One verification that was VALID, as the verify script stamped it; it never changes afterwards. */
export type UsageEvent = {
  id: string;
  timeMs: number;
  keyId: string;
  /** Empty when the key is not metered. */
  billingId: string;
  usageName: string;
  costMicros: number;
  /** The billing record's used micro-credits after this event. */
  usedMicros: number;
  epoch: number;
  sequence: number;
  route: string;
};

/** An entry that is no event; the message names the field and never its content. */
export class UnreadableEvent extends Error {}

/** The one field of an entry in the outbox; its value is the event as JSON, and so is a value in Kafka. */
export const EVENT_FIELD = 'e';

/** Reads an entry of the outbox: names and values in turn. Throws `UnreadableEvent`. */
export function readEvent(fields: readonly string[]): UsageEvent {
  const [name, value] = fields;
  if (name !== EVENT_FIELD || fields.length !== 2)
    throw new UnreadableEvent(`the entry is not one field ${EVENT_FIELD}`);
  return decodeEvent(value);
}

/** An event as JSON, exactly as verify.lua writes it: the same event is always the same bytes. */
export function encodeEvent(event: UsageEvent): string {
  const { id: i, route: r, costMicros: c, usageName: n, timeMs: t } = event;
  const { keyId: k, billingId: b, usedMicros: u, sequence: s, epoch: e } = event;
  return JSON.stringify({ i, r, c, n, t, k, b, u, s, e });
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
  return {
    id: id(given, 'i'),
    timeMs: whole(given, 't', EARLIEST_MS, LATEST_MS),
    keyId: id(given, 'k'),
    billingId: given.b === '' ? '' : id(given, 'b'),
    usageName: text(given, 'n'),
    costMicros: whole(given, 'c', 0, Number.MAX_SAFE_INTEGER),
    usedMicros: whole(given, 'u', 0, Number.MAX_SAFE_INTEGER),
    epoch: whole(given, 'e', 0, 2 ** 32 - 1),
    sequence: whole(given, 's', 0, Number.MAX_SAFE_INTEGER),
    route: text(given, 'r'),
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
  ...(['billing_id', 'day', 'event_id', 'key_id', 'usage_name', 'cost_micros', 'used_micros'] as const),
  ...(['epoch', 'seq', 'route', 'time'] as const),
];

/** An event as a row of usage_events (JSONCompactEachRow: half of what JSONEachRow costs both sides). */
export function eventRow(event: UsageEvent): (string | number)[] {
  const time = new Date(event.timeMs).toISOString();
  return [
    event.billingId,
    time.slice(0, 10),
    event.id,
    event.keyId,
    event.usageName,
    event.costMicros,
    event.usedMicros,
    event.epoch,
    event.sequence,
    event.route,
    time.slice(0, 23),
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

function whole(given: Record<string, unknown>, name: string, min: number, max: number): number {
  const value = given[name];
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw new UnreadableEvent(`field ${name} is not a whole number of its range`);
}
