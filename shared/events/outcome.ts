import { parseEvent, readText, UnreadableEvent, wholeFrom } from './event.ts';

// What was refused, on its way to the books beside the usage events: a line of an outbox entry, a record of Kafka. Outcomes are no
// usage, and nothing is billed by them.

/** Stands in place of what was not counted by itself: there was too much of it. */
export const OTHER = '(other)';

/** How long the books keep counts, and refusals one by one. */
export const COUNTS_KEPT_MS = 93 * 86_400_000;
export const REFUSALS_KEPT_MS = 86_400_000;

type Field<Value extends string | number> = { json: string; column: string; read(value: unknown, name: string): Value };

/**
 * How many calls of a cell a process has refused so far in a minute. All fields but the last are its identity: of counts told
 * twice, or later, the largest stays. Texts are empty where they say nothing.
 */
const countFields = {
  /** Names the process that counted, from its start to its end. */
  boot: text('i', 'boot'),
  /** The minute by Redis's clock: its first second, in Unix seconds. */
  minuteSeconds: whole('m', 'minute'),
  teamId: text('t', 'team_id'),
  /** Empty for a secret that is no key of the team's. */
  workspaceId: text('w', 'workspace_id'),
  status: text('s', 'status'),
  reason: text('y', 'reason'),
  /** The limit that refused, or would have: its place, a slash, and its name. */
  limit: text('l', 'limited_by'),
  keyId: text('k', 'key_id'),
  /** 1: the limit only watches, and would have refused. */
  wouldRefuse: whole('v', 'would_refuse'),
  calls: whole('c', 'calls'),
};

const refusalFields = {
  id: text('i', 'refusal_id'),
  timeMs: whole('a', 'time'),
  workspaceId: text('w', 'workspace_id'),
  keyId: text('k', 'key_id'),
  /** The external meter of the key. */
  meter: text('b', 'external_meter_id'),
  status: text('s', 'status'),
  reason: text('y', 'reason'),
  /** The limit as the answer told it, as JSON. */
  limitedBy: text('l', 'limited_by'),
  route: text('r', 'route'),
  /** The end client's, on the way sealed (sealed-addresses.ts); empty where nobody named it. */
  address: text('p', 'client_address', ''),
};

const kinds = {
  count: { mark: 'refusals', table: 'refusals', fields: countFields },
  refusal: { mark: 'refused', table: 'recent_refusals', fields: refusalFields },
} as const;

export type OutcomeKind = keyof typeof kinds;
type Values<Fields extends Record<string, Field<string | number>>> = {
  [Name in keyof Fields]: ReturnType<Fields[Name]['read']>;
};
export type RefusalCount = Values<typeof countFields>;
export type Refusal = Values<typeof refusalFields>;

/** An outcome on its way to the books, with its JSON to hand on. */
export type CarriedOutcome = { json: string } & (({ kind: 'count' } & RefusalCount) | ({ kind: 'refusal' } & Refusal));

/** The JSON of a count up to the number of calls, which changes, and what ends it. */
export function beginCount(count: Omit<RefusalCount, 'calls'>): string {
  return `${toJson('count', count).slice(0, -1)},"${countFields.calls.json}":`;
}

/** The JSON of a refusal. */
export function encodeRefusal(refusal: Refusal): string {
  return toJson('refusal', refusal);
}

/** Whether a line tells an outcome, and no event. */
export function isOutcome(line: string | Buffer): boolean {
  if (typeof line === 'string') return line.startsWith(OUTCOME_START);
  // Nearly every line is an event, which the first byte that differs tells.
  return line[2] === OUTCOME_START.charCodeAt(2) && isOutcome(line.toString('latin1', 0, OUTCOME_START.length));
}

/** Reads an outcome from its JSON, a character for each byte. Throws `UnreadableEvent`. */
export function carryOutcome(line: string): CarriedOutcome {
  const json = Buffer.from(line, 'latin1').toString();
  const values = parseEvent(json);
  const kind = outcomeKinds.find((one) => kinds[one].mark === values['x']);
  if (!kind) throw new UnreadableEvent('field x is not a kind of outcome');
  const fields = fieldsOf(kind).map(([name, { json: letter, read }]) => [name, read(values[letter], letter)]);
  return { json, kind, ...Object.fromEntries(fields) } as CarriedOutcome;
}

/** When an outcome was, in Unix ms; of a count, when its minute began. */
export function timeOfOutcome(outcome: CarriedOutcome): number {
  return outcome.kind === 'count' ? outcome.minuteSeconds * 1000 : outcome.timeMs;
}

/** An outcome as a row of its table: the values of its columns. */
export function outcomeRow(outcome: CarriedOutcome): unknown[] {
  return fieldsOf(outcome.kind).map(([name]) => outcome[name as keyof CarriedOutcome]);
}

/** Where outcomes of a kind stand in the books, and the columns of their rows. */
export function outcomeTable(kind: OutcomeKind): { table: string; columns: [string, ...string[]] } {
  const columns = fieldsOf(kind).map(([, { column }]) => column) as [string, ...string[]];
  return { table: kinds[kind].table, columns };
}

const OUTCOME_START = '{"x":"refus';
const outcomeKinds = Object.keys(kinds) as OutcomeKind[];

function fieldsOf(kind: OutcomeKind): [string, Field<string | number>][] {
  return Object.entries(kinds[kind].fields);
}

function toJson(kind: OutcomeKind, values: Record<string, string | number>): string {
  const json: Record<string, string | number | undefined> = { x: kinds[kind].mark };
  for (const [name, { json: letter }] of fieldsOf(kind)) json[letter] = values[name];
  return JSON.stringify(json);
}

function text(json: string, column: string, absent?: string): Field<string> {
  return { json, column, read: (value, name) => readText(value ?? absent, name) };
}

function whole(json: string, column: string): Field<number> {
  return { json, column, read: wholeFrom(0, Number.MAX_SAFE_INTEGER) };
}
