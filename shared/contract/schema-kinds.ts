import { Type, type Static, type TProperties, type TSchema } from 'typebox';
import { CREDITS_PATTERN } from '../values/credits.ts';
import type { IdPrefix } from '../values/ids.ts';
import type { JsonLimits } from './validate.ts';

// What schemas are built from. Each takes what the field is about, which becomes its description in the OpenAPI document.

/** An object with exactly these fields: an unknown one is an error, so that a misspelt name is never ignored. */
export function object<Properties extends TProperties>(properties: Properties, options: { examples?: unknown[] } = {}) {
  return Type.Object(properties, { additionalProperties: false, ...options });
}

/** The same schema with a name: the OpenAPI document has it once, and generated clients name their types by it. */
export function named<Schema extends TSchema>(title: string, schema: Schema): Schema {
  return { ...schema, title };
}

/** A value that `null` clears. */
export function nullable<Schema extends TSchema>(schema: Schema) {
  // Not a union of two schemas: its error would name both, and it would ignore defaults inside of it.
  const { type } = schema as { type?: string };
  return Type.Unsafe<Static<Schema> | null>({ ...schema, type: [type, 'null'] });
}

/** Text of an answer, or of a request that is looked up as it stands. */
export function plainText(maxLength: number, description: string, example: string) {
  return Type.String({ maxLength, description, examples: [example] });
}

/** A whole number. */
export function whole(description: string, example: number) {
  return Type.Integer({ description, examples: [example] });
}

/** How many there are of something. */
export function count(description: string, example: number) {
  return Type.Integer({ minimum: 0, description, examples: [example] });
}

/** Whether something is to be done, where a request says it. */
export function flag(description: string, byDefault: boolean) {
  return Type.Boolean({ default: byDefault, description });
}

// Text without control characters: they do not belong into a name, and one of them separates fields in Redis records.
const pattern = '^[^\\u0000-\\u001f\\u007f\\ud800-\\udfff]*$';

/** Text without control characters. */
export function textOf(maxLength: number, description: string, example: string) {
  return Type.String({ minLength: 1, maxLength, pattern, description, examples: [example] });
}

/** Texts by names that the client chooses; null where a name shall have none. */
export function textsByName(
  { mostNames, mostCharacters }: { mostNames: number; mostCharacters: number },
  description: string,
  example: Record<string, string | null>,
) {
  return Type.Unsafe<Record<string, string | null>>({
    type: 'object',
    maxProperties: mostNames,
    'x-limits': { maxBytes: mostNames * (128 + mostCharacters), maxDepth: 1 },
    propertyNames: { maxLength: 128, pattern },
    additionalProperties: { type: ['string', 'null'], minLength: 1, maxLength: mostCharacters, pattern },
    description,
    examples: [example],
  });
}

// What has no width, turns the direction of reading, or shows nothing, besides control characters.
const UNSEEN =
  '\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ud800-\\udfff\\ufeff';
// Emoji and some scripts join signs by these; behind Latin letters they only hide.
const JOINERS = '\\u200c\\u200d';

/** A name that people see: not blank, and with nothing unseen that makes it look like another one. */
export function nameOf(maxLength: number, description: string, example: string) {
  const latin = (from: string) => `[${from}-\\u007e\\u00a1-\\u00ac\\u00ae-\\u024f]`;
  const other = (more: string) => `[^\\u0000-\\u009f\\u00a1-\\u024f${more}${UNSEEN}${JOINERS}][${JOINERS}]?`;
  const pattern = `^[^\\S${UNSEEN}]*(?:${latin('\\u0021')}|${other('\\u00a0\\s')})(?:${latin('\\u0020')}|${other('')})*$`;
  return Type.String({ minLength: 1, maxLength, pattern, description, examples: [example] });
}

/** A usage name. Each event keeps it, so it is limited in bytes too: `x-max-bytes` is a keyword of ours (validate.ts). */
export function usageName(description: string) {
  const text = textOf(128, `${description}; at most 256 bytes in UTF-8`, 'tokens');
  return Type.String({ ...text, 'x-max-bytes': 256 });
}

/** Some of these texts, each once. Their type lets Ajv find a repetition without comparing each one with all others. */
export function someOf<const Text extends string>(
  texts: readonly Text[],
  { minItems, ...options }: { minItems?: number; description?: string; examples?: Text[][] },
) {
  const bounds = { ...(minItems !== undefined && { minItems }), maxItems: texts.length, uniqueItems: true };
  return Type.Array(Type.Enum([...texts], { type: 'string' }), { ...bounds, ...options });
}

const idPrefixes = {
  team: 'team',
  workspace: 'ws',
  scope: 'scope',
  'API key': 'key',
  'billing record': 'bill',
  'ledger row': 'ledger',
  grant: 'grant',
  'grant schedule': 'sched',
  plan: 'plan',
  'access token': 'tok',
  'link token': 'link',
  'audit entry': 'audit',
  event: 'evt',
  webhook: 'hook',
  'webhook delivery': 'dlv',
  'meter destination': 'dest',
  'meter event': 'mev',
  'payment source': 'psrc',
  payment: 'pay',
} as const satisfies Record<string, IdPrefix>;

/** No text of a request is longer: its body ends before. So a text that is no id is unknown, like any other, and never invalid. */
export const MOST_TEXT = 65_536;

/** The id of a kind of thing; `more` is added to the description. */
export function id(what: keyof typeof idPrefixes, more = '') {
  return plainText(MOST_TEXT, `id of the ${what}${more}`, `${idPrefixes[what]}_01kafc6v3nf0qtmhd7d5ryx2s9`);
}

/** The secret of a key or a token. The example has the form of one and belongs to nobody. */
export function secretText(what: string, prefix: string) {
  return plainText(MOST_TEXT, what, `${prefix}_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1`);
}

/** A time as text. */
export function timestamp(what: string) {
  return Type.String({
    format: 'date-time',
    description: `${what}, RFC 3339 in UTC`,
    examples: ['2026-11-20T08:10:00.000Z'],
  });
}

/** A time as a number. */
export function instant(what: string) {
  return whole(`${what}, in Unix milliseconds`, 1_795_162_200_000);
}

/** A day. */
export function day(what: string) {
  return Type.String({ format: 'date', description: `${what}, YYYY-MM-DD in UTC`, examples: ['2026-11-20'] });
}

/** An amount of credits. */
export function credits(what: string, options: { default?: string } = {}) {
  return Type.String({
    pattern: CREDITS_PATTERN,
    description: `${what}: decimal text, at most six decimals, at most 9000000000`,
    examples: ['100.25'],
    ...options,
  });
}

/** An amount of credits that may be negative. */
export function signedCredits(what: string) {
  return Type.String({
    pattern: CREDITS_PATTERN.replace('^', '^-?'),
    description: `${what}: decimal text, at most six decimals, at most 9000000000 either way`,
    examples: ['-1.5'],
  });
}

/** A JSON object of the client's own making. `x-limits` is a keyword of ours: validate.ts checks it. */
export function jsonObject(what: string, limits: JsonLimits, example: Record<string, unknown>) {
  return Type.Unsafe<Record<string, unknown>>({
    type: 'object',
    // Never less than fit into these bytes.
    maxProperties: Math.floor(limits.maxBytes / 4),
    'x-limits': limits,
    description: `${what}: a JSON object of at most ${limits.maxBytes} bytes and ${limits.maxDepth} levels, without keys __proto__, constructor and prototype`,
    examples: [example],
  });
}

/** The X-Request-Id of a request, as answers name it. */
export function requestIdText(example: string) {
  return plainText(128, 'X-Request-Id of the request', example);
}
