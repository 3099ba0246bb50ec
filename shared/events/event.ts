import { isId } from '../values/ids.ts';
import {
  ADJUSTMENTS,
  eventKinds,
  FREE,
  GIVING_BACK,
  NEVER_WITHOUT_DETAIL,
  OF_HOLDS,
  OF_KEYS,
  UNMETERED,
  type EventKind,
} from './event-kinds.ts';

/** An entry that is not an event. The message names the wrong field and never shows its content. */
export class UnreadableEvent extends Error {}

/** What an event does to classes of credits: of each its number, and used, held and expired micro-credits, as many as are not 0 at the end. */
export type ClassChanges = readonly (readonly number[])[];
type FieldValue = string | number | ClassChanges;

type Field<Value extends FieldValue> = {
  /** The field's name in an event's JSON. Lua scripts write some of these names; event.test.ts compares them. */
  json: string;
  /** The field's column in usage_events. */
  column: string;
  /** Checks a JSON value and gives it, or throws `UnreadableEvent`. */
  read(value: unknown, name: string, kind: EventKind): Value;
  /** The kinds whose JSON has the field, unless all have it; `fromJson` gives its value for the others. */
  of?: ReadonlySet<EventKind>;
  /** The value that JSON leaves out. */
  omitted?: Value;
};

const MAX_INT = Number.MAX_SAFE_INTEGER;
const MAX_UINT32 = 2 ** 32 - 1;
// ClickHouse's Date ends in 2149. No event is older than 2020.
const EARLIEST_MS = Date.UTC(2020, 0);
const LATEST_MS = Date.UTC(2149, 0);

/** Of an event that leaves them out. */
export const NO_CHANGES: ClassChanges = [];
const FIELDS_OF_CLASS = 4;

/**
 * Every field of an event: its name in JSON, its column, and how it is checked. All that reads or writes events
 * goes by this table. Its order is that of the JSON that verify.lua writes, so the same event is always the same
 * bytes.
 */
export const eventFields = {
  /** The JSON of a verification leaves it out. */
  kind: field({ json: 'x', column: 'kind', read: readKind }),
  id: field({ json: 'i', column: 'event_id', read: readId }),
  route: field({ json: 'r', column: 'route', read: readText }),
  /** Negative for an adjustment or a correction that gives credits back. */
  costMicros: field({ json: 'c', column: 'cost_micros', read: readCost }),
  usageName: field({ json: 'n', column: 'usage_name', read: readText }),
  /** Redis's clock when the script ran. */
  timeMs: field({ json: 't', column: 'time', read: wholeFrom(EARLIEST_MS, LATEST_MS) }),
  /** Empty unless the event is a verification or of a hold. */
  keyId: field({ json: 'k', column: 'key_id', read: readKeyId }),
  /** Empty for a key that is not metered. */
  billingId: field({ json: 'b', column: 'billing_id', read: readBillingId }),
  workspaceId: field({ json: 'v', column: 'workspace_id', read: readId }),
  /** The `customerId` of the key, which never changes. Lines that end or extend a hold get it from the consumer. */
  customerId: field({ json: 'p', column: 'customer_id', read: readText, omitted: '' }),
  /**
   * The billing record's used micro-credits after this event. They are below zero for a while when an adjustment comes
   * before Redis has learned of lost usage again.
   */
  usedMicros: field({ json: 'u', column: 'used_micros', read: wholeFrom(-MAX_INT, MAX_INT) }),
  /** For an adjustment, the sequence number of the event before it. */
  sequence: field({ json: 's', column: 'seq', read: wholeFrom(0, MAX_INT) }),
  epoch: field({ json: 'e', column: 'epoch', read: wholeFrom(0, MAX_UINT32) }),
  /** The UTC day of `timeMs`; for an adjustment, the day that it is booked on. */
  day: field({ json: 'd', column: 'day', read: readDay, of: ADJUSTMENTS }),
  /** An adjustment's own number within its billing record, from 1. */
  number: field({ json: 'a', column: 'number', read: wholeFrom(1, MAX_UINT32), of: ADJUSTMENTS }),
  /** The access token that made an adjustment. */
  actor: field({ json: 'w', column: 'actor', read: readText, of: ADJUSTMENTS }),
  /** Why an adjustment was made. */
  reason: field({ json: 'y', column: 'reason', read: readText, of: ADJUSTMENTS }),
  /** The billing record's reserved micro-credits after this event. */
  heldMicros: field({ json: 'h', column: 'held_micros', read: wholeFrom(0, MAX_INT), omitted: 0 }),
  /** The hold's characters: those of its event's id after `evt_`. */
  holdId: field({ json: 'o', column: 'hold_id', read: readHoldId, of: OF_HOLDS }),
  /** By how much a line of a hold changes what is reserved; of an extension, how much the hold reserves. */
  holdMicros: field({ json: 'm', column: 'hold_micros', read: wholeFrom(0, MAX_INT), of: OF_HOLDS }),
  /** A hold or an extension: the hold. A capture, release or correction: how it came, where that is special. */
  detail: field({ json: 'f', column: 'detail', read: readDetail, of: OF_HOLDS, omitted: '' }),
  /** What it does to classes of credits; left out where its cost is used of the plain class, as always of a plain record. */
  classes: field({ json: 'g', column: 'classes', read: readClasses, omitted: NO_CHANGES }),
  /** The alerts that the event crossed. */
  crossed: field({ json: 'l', column: 'crossed', read: readText, omitted: '' }),
};

/** One line of the books, as a script stamped it. It never changes afterwards. */
export type UsageEvent = {
  [Name in keyof typeof eventFields]: ReturnType<(typeof eventFields)[Name]['read']>;
};

/** The one field of an outbox entry. Its value is the JSON of each event of one script, a line each. */
export const EVENT_FIELD = 'e';

type Begun = Pick<UsageEvent, 'kind' | 'id' | 'billingId'> & Partial<UsageEvent>;

/** The JSON of an event without its closing brace: the script that appends the event adds what only Redis knows. */
export function beginEvent(event: Begun): string {
  return toJson({ route: '', costMicros: 0, usageName: '', keyId: '', ...event }).slice(0, -1);
}

/** The lines of an outbox entry: names and values in turn. Throws `UnreadableEvent`. */
export function valueOfEntry<Text extends Buffer | string>(entry: readonly Text[]): Text {
  const [name, value] = entry;
  if (name?.toString() !== EVENT_FIELD || value === undefined || entry.length !== 2)
    throw new UnreadableEvent(`the entry is not one field ${EVENT_FIELD}`);
  return value;
}

/** Reads an event from its JSON. Throws `UnreadableEvent`. */
export function decodeEvent(value: Buffer | string | null | undefined): UsageEvent {
  return fromJson(parseEvent(value));
}

/** Reads the fields of an event, or of an outcome. Throws `UnreadableEvent`. */
export function parseEvent(value: Buffer | string | null | undefined): Record<string, unknown> {
  if (value === null || value === undefined) throw new UnreadableEvent('there is no value');
  let json: unknown;
  try {
    json = JSON.parse(value.toString());
  } catch {
    throw new UnreadableEvent('the value is not JSON');
  }
  if (typeof json !== 'object' || json === null) throw new UnreadableEvent('the value is not a JSON object');
  return json as Record<string, unknown>;
}

/** The columns of usage_events that `eventRow` fills, in its order. */
export const eventColumns = Object.values(eventFields).map(({ column }) => column) as [string, ...string[]];

/** An event as a row of usage_events: the values of `eventColumns`. */
export function eventRow(event: UsageEvent): unknown[] {
  return fields.map(([name]) => (name === 'classes' ? event.classes.map(padded) : event[name]));
}

function padded(change: readonly number[]): number[] {
  return Array.from({ length: FIELDS_OF_CLASS }, (_, i) => change[i] ?? 0);
}

/** The UTC day of an instant, `YYYY-MM-DD`. */
export function dayOf(timeMs: number): string {
  const number = Math.floor(timeMs / DAY_MS);
  // Every event asks, and nearly all are of the same day.
  if (number !== lastDay.number) lastDay = { number, text: new Date(timeMs).toISOString().slice(0, 10) };
  return lastDay.text;
}

const DAY_MS = 86_400_000;
let lastDay = { number: NaN, text: '' };

const fields = Object.entries(eventFields) as [keyof UsageEvent, Field<FieldValue>][];
const fieldsInJson = new Map(
  eventKinds.map((kind) => {
    const ofKind = fields.filter(([, { of }]) => !of || of.has(kind));
    return [kind, kind === 'verification' ? ofKind.filter(([name]) => name !== 'kind') : ofKind];
  }),
);

function toJson(event: Begun): string {
  const json: Record<string, unknown> = {};
  for (const [name, field] of fieldsInJson.get(event.kind)!)
    if (event[name] !== field.omitted) json[field.json] = event[name];
  return JSON.stringify(json);
}

// Written out: events of one shape, in half the time of a loop over the fields.
function fromJson(json: Record<string, unknown>): UsageEvent {
  const kind = readKind(json[eventFields.kind.json], eventFields.kind.json);
  const value = <Value extends FieldValue>({ json: name, read, omitted }: Field<Value>): Value =>
    read(json[name] ?? omitted, name, kind);
  const isAdjustment = kind === 'adjustment';
  const isOfHold = OF_HOLDS.has(kind);
  return {
    kind,
    id: value(eventFields.id),
    route: value(eventFields.route),
    costMicros: value(eventFields.costMicros),
    usageName: value(eventFields.usageName),
    timeMs: value(eventFields.timeMs),
    keyId: value(eventFields.keyId),
    billingId: value(eventFields.billingId),
    workspaceId: value(eventFields.workspaceId),
    customerId: value(eventFields.customerId),
    usedMicros: value(eventFields.usedMicros),
    sequence: value(eventFields.sequence),
    epoch: value(eventFields.epoch),
    day: isAdjustment ? value(eventFields.day) : dayOf(json[eventFields.timeMs.json] as number),
    number: isAdjustment ? value(eventFields.number) : 0,
    actor: isAdjustment ? value(eventFields.actor) : '',
    reason: isAdjustment ? value(eventFields.reason) : '',
    heldMicros: value(eventFields.heldMicros),
    holdId: isOfHold ? value(eventFields.holdId) : '',
    holdMicros: isOfHold ? value(eventFields.holdMicros) : 0,
    detail: isOfHold ? value(eventFields.detail) : '',
    classes: value(eventFields.classes),
    crossed: value(eventFields.crossed),
  };
}

/** Keeps the exact type of a field's value. */
function field<Value extends FieldValue>(field: Field<Value>): Field<Value> {
  return field;
}

function readKind(value: unknown, name: string): EventKind {
  const kind = eventKinds.find((one) => one === (value ?? 'verification'));
  if (!kind) throw new UnreadableEvent(`field ${name} is not a kind`);
  return kind;
}

/** Checks a text of an event, and gives it. */
export function readText(value: unknown, name: string): string {
  if (typeof value !== 'string') throw new UnreadableEvent(`field ${name} is missing`);
  // ClickHouse refuses half a surrogate pair, and with it every event of its block.
  if (!value.isWellFormed()) throw new UnreadableEvent(`field ${name} is not well-formed text`);
  return value;
}

function readId(value: unknown, name: string): string {
  const id = readText(value, name);
  if (!isId(id)) throw new UnreadableEvent(`field ${name} is not an id`);
  return id;
}

function readKeyId(value: unknown, name: string, kind: EventKind): string {
  return OF_KEYS.has(kind) ? readId(value, name) : '';
}

function readBillingId(value: unknown, name: string, kind: EventKind): string {
  return UNMETERED.has(kind) && value === '' ? '' : readId(value, name);
}

function readCost(value: unknown, name: string, kind: EventKind): number {
  return wholeBetween(value, name, GIVING_BACK.has(kind) ? -MAX_INT : 0, FREE.has(kind) ? 0 : MAX_INT);
}

function readHoldId(value: unknown, name: string): string {
  const hold = readText(value, name);
  if (!isId(`hold_${hold}`)) throw new UnreadableEvent(`field ${name} is not a hold`);
  return hold;
}

function readDetail(value: unknown, name: string, kind: EventKind): string {
  const detail = readText(value, name);
  if (detail === '' && NEVER_WITHOUT_DETAIL.has(kind)) throw new UnreadableEvent(`field ${name} is empty`);
  return detail;
}

function readClasses(value: unknown, name: string): ClassChanges {
  if (!Array.isArray(value)) throw new UnreadableEvent(`field ${name} is not a list`);
  for (const one of value as unknown[]) {
    if (!Array.isArray(one) || one.length < 2 || one.length > FIELDS_OF_CLASS)
      throw new UnreadableEvent(`field ${name} is not a list of changes`);
    wholeBetween(one[0], name, 0, MAX_UINT32);
    for (const micros of one.slice(1)) wholeBetween(micros, name, -MAX_INT, MAX_INT);
  }
  return value as number[][];
}

function readDay(value: unknown, name: string): string {
  const day = readText(value, name);
  const time = /^\d{4}-\d\d-\d\d$/.test(day) ? Date.parse(day) : NaN;
  // ClickHouse would book a day that it can't store on another one; so would Date.parse 30 February.
  if (!(time >= 0 && time <= LATEST_MS) || dayOf(time) !== day) throw new UnreadableEvent(`field ${name} is not a day`);
  return day;
}

/** Checks whole numbers of an event, and gives them. */
export function wholeFrom(min: number, max: number) {
  return (value: unknown, name: string): number => wholeBetween(value, name, min, max);
}

function wholeBetween(value: unknown, name: string, min: number, max: number): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw new UnreadableEvent(`field ${name} is not a whole number of its range`);
}
