import { Type, type Static, type TProperties, type TSchema } from 'typebox';
import { CREDITS_PATTERN } from '../values/credits.ts';
import type { IdPrefix } from '../values/ids.ts';
import type { JsonLimits } from './json-object.ts';
import { PREFIX_PATTERN } from '../values/key-text.ts';

// The shapes that more than one route speaks of. Each JSON Schema is the source: it validates, it is the type
// (`Static`), and it stands in the OpenAPI document.

/** An object that has no other fields than these: a misspelt one is an error, never ignored. */
export function object<Properties extends TProperties>(properties: Properties, options: { examples?: unknown[] } = {}) {
  return Type.Object(properties, { additionalProperties: false, ...options });
}

/** A value that may be cleared with `null`. */
export function nullable<Schema extends TSchema>(schema: Schema) {
  // No union of two schemas: its error would name both, and presets inside of it would be ignored.
  const { type } = schema as { type?: string };
  return Type.Unsafe<Static<Schema> | null>({ ...schema, type: [type, 'null'] });
}

/** Text without control characters: they have no place in a name, and Redis records are split at one. */
export function textOf(maxLength: number, description: string, example: string) {
  const pattern = '^[^\\u0000-\\u001f\\u007f\\ud800-\\udfff]*$';
  return Type.String({ minLength: 1, maxLength, pattern, description, examples: [example] });
}

const idPrefixes = {
  team: 'team',
  workspace: 'ws',
  scope: 'scope',
  'API key': 'key',
  'billing record': 'bill',
  'ledger row': 'ledger',
  'access token': 'tok',
  'link token': 'link',
  'audit entry': 'audit',
  event: 'evt',
} as const satisfies Record<string, IdPrefix>;

/** The id of something; `more` says which, where there is more to say. */
export const id = (what: keyof typeof idPrefixes, more = '') =>
  Type.String({
    description: `id of the ${what}${more}`,
    examples: [`${idPrefixes[what]}_01kafc6v3nf0qtmhd7d5ryx2s9`],
  });
/** The text of a key or of a token; what it looks like, and no key of anybody's. */
export const secretText = (what: string, prefix: string) =>
  Type.String({ description: what, examples: [`${prefix}_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1`] });
export const name = textOf(128, 'what people call it', 'Acme');
export const timestamp = (what: string) =>
  Type.String({
    format: 'date-time',
    description: `${what}, RFC 3339 in UTC`,
    examples: ['2026-11-20T08:10:00.000Z'],
  });
export const instant = (what: string) =>
  Type.Integer({ description: `${what}, in Unix milliseconds`, examples: [1_795_162_200_000] });
export const day = (what: string) =>
  Type.String({ format: 'date', description: `${what}, YYYY-MM-DD in UTC`, examples: ['2026-11-20'] });
export const credits = (what: string, options: { default?: string } = {}) =>
  Type.String({
    pattern: CREDITS_PATTERN,
    description: `${what}: decimal text, at most six decimals, at most 9000000000`,
    examples: ['100.25'],
    ...options,
  });
export const signedCredits = (what: string) =>
  Type.String({
    pattern: CREDITS_PATTERN.replace('^', '^-?'),
    description: `${what}: decimal text, at most six decimals, at most 9000000000 either way`,
    examples: ['-1.5'],
  });
export const prefix = Type.String({
  pattern: PREFIX_PATTERN,
  description: 'what key texts start with',
  examples: ['acme'],
});
export const rateLimit = Type.Integer({
  minimum: 1,
  maximum: 1_000_000,
  description: 'verifications per second',
  examples: [100],
});
export const allowedIps = Type.Array(Type.String({ maxLength: 64, format: 'ip-or-cidr' }), {
  maxItems: 1000,
  description: 'IPv4 and IPv6 addresses and CIDR blocks; an empty list allows all',
  examples: [['203.0.113.0/24', '2001:db8::1']],
});
export const representation = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9:._/*-]{0,127}$',
  description: 'what the scope stands for, unique in its workspace',
  examples: ['documents'],
});

export const customerId = textOf(256, 'your own id of the customer', 'cus_acme');
export const externalMeterId = textOf(
  256,
  'your own id of the meter, which ties keys to the billing record of the same meter',
  'acme',
);

/** A JSON object of the client's own making; `x-limits` is a keyword of ours, see validate.ts. */
export function jsonObject(what: string, limits: JsonLimits, example: Record<string, unknown>) {
  return Type.Unsafe<Record<string, unknown>>({
    type: 'object',
    'x-limits': limits,
    description: `${what}: a JSON object of at most ${limits.maxBytes} bytes and ${limits.maxDepth} levels, without keys __proto__, constructor and prototype`,
    examples: [example],
  });
}

export const metadata = jsonObject('data of your own', { maxBytes: 4096, maxDepth: 5 }, { plan: 'pro' });

const flag = (verb: string) =>
  Type.Boolean({ default: false, description: `may ${verb}`, examples: [verb === 'read'] });
const scopeId = Type.String({ maxLength: 128, examples: ['scope_01kafc6v3nf0qtmhd7d5ryx2s9'] });

/** A scope as it is granted or asked for; missing flags are false, an `id` is accepted and counts for nothing. */
export const scopeEntryInput = object({
  representation,
  create: Type.Optional(flag('create')),
  read: Type.Optional(flag('read')),
  update: Type.Optional(flag('update')),
  del: Type.Optional(flag('delete')),
  id: Type.Optional(scopeId),
});
export const scopeEntries = Type.Array(scopeEntryInput, { maxItems: 100 });

/** A scope as a key holds it. */
export const scopeEntry = object({
  representation,
  create: Type.Boolean(),
  read: Type.Boolean({ examples: [true] }),
  update: Type.Boolean(),
  del: Type.Boolean(),
  id: Type.Optional(scopeId),
});

/** A billing record, section 2 of the specification. */
export const billing = object({
  id: id('billing record'),
  workspaceId: id('workspace'),
  externalMeterId,
  totalCredits: credits('credits bought'),
  usedCredits: credits('credits used'),
  allowOverages: Type.Boolean({ description: 'whether use may go on beyond totalCredits' }),
  spendCap: Type.Optional(credits('most that may be used')),
  createdAt: timestamp('when it was made'),
  updatedAt: timestamp('when its settings last changed'),
});

export const errorEnvelope = object({
  error: object({
    code: Type.Integer({
      exclusiveMinimum: 0,
      description: 'HTTP status times 100 plus a running number',
      examples: [40001],
    }),
    message: Type.String({ description: 'what is wrong and what would be right' }),
    requestId: Type.String({ description: 'the X-Request-Id of the answer' }),
    details: Type.Optional(
      Type.Array(
        object({
          path: Type.String({ description: 'a JSON pointer into the body, or the name of a parameter' }),
          message: Type.String({ description: 'what would be right there' }),
        }),
      ),
    ),
  }),
});

/** Create, read, update and delete flags of a scope entry as bits 1, 2, 4 and 8. */
export type Flags = { create?: boolean; read?: boolean; update?: boolean; del?: boolean };

export function flagBits(flags: Flags): number {
  return (flags.create ? 1 : 0) | (flags.read ? 2 : 0) | (flags.update ? 4 : 0) | (flags.del ? 8 : 0);
}

/** A key's scope entry from its stored form. */
export function scopeEntryOf(representation: string, bits: number, scopeId: string) {
  return {
    representation,
    create: (bits & 1) > 0,
    read: (bits & 2) > 0,
    update: (bits & 4) > 0,
    del: (bits & 8) > 0,
    id: scopeId,
  };
}
