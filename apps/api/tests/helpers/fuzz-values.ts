import * as fc from 'fast-check';

/** The part of JSON Schema that the OpenAPI document uses. */
export type Schema = {
  type?: string | string[];
  anyOf?: { type: string }[];
  enum?: unknown[];
  examples?: unknown[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  minItems?: number;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  'x-limits'?: object;
};

/** Values that exist, by the name of their field: an invented value seldom passes the first check. */
export type Pool = Record<string, string[]>;

/** Values that fit a schema. */
export function valuesOf(schema: Schema, pool: Pool, name = ''): fc.Arbitrary<unknown> {
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const types = schema.anyOf?.map(({ type }) => type) ?? [schema.type ?? 'object'].flat();
  const known = pool[name];
  const made = fc.oneof(...types.map((type) => ofType(type, schema, pool)));
  const examples = schema.examples ?? [];
  return fc.oneof(
    { arbitrary: made, weight: 2 },
    ...(known ? [{ arbitrary: fc.nat(99).map<unknown>((i) => pool[name]![i % pool[name]!.length]), weight: 6 }] : []),
    ...(examples.length > 0 ? [{ arbitrary: fc.constantFrom(...examples), weight: 1 }] : []),
  );
}

function ofType(type: string, schema: Schema, pool: Pool): fc.Arbitrary<unknown> {
  const { minimum = -1e9, maximum = 1e15, items = {}, minItems = 0, maxItems = 3, properties = {} } = schema;
  switch (type) {
    case 'null':
      return fc.constant(null);
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.oneof(
        fc.constantFrom(minimum, maximum),
        fc.maxSafeInteger().map((n) => clamp(n, minimum, maximum)),
      );
    case 'number':
      return fc.oneof(
        fc.integer({ min: 1, max: 1e6 }).map((n) => n / 1000),
        fc.double({ min: 1e-6, max: 1e9 }),
      );
    case 'array':
      return fc.array(valuesOf(items, pool), { minLength: minItems, maxLength: Math.min(maxItems, 3) });
    case 'string':
      return ofText(schema);
    default:
      if (schema['x-limits']) return fc.dictionary(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 2 }));
      return fc.record(
        Object.fromEntries(Object.entries(properties).map(([field, one]) => [field, valuesOf(one, pool, field)])),
        { requiredKeys: schema.required ?? [] },
      );
  }
}

function ofText({ format, pattern, minLength = 0, maxLength = 40 }: Schema): fc.Arbitrary<string> {
  if (format === 'date') {
    return fc
      .date({ min: new Date(0), max: new Date('2200-01-01'), noInvalidDate: true })
      .map((day) => day.toISOString().slice(0, 10));
  }
  if (format === 'ip') return fc.oneof(fc.ipV4(), fc.ipV6());
  if (format === 'ip-or-cidr')
    return fc.oneof(
      fc.ipV4(),
      fc.ipV6(),
      fc.ipV4().map((address) => `${address}/8`),
    );
  const plain = fc.string({ unit: 'grapheme', minLength, maxLength: Math.min(maxLength, 60) });
  return pattern && !pattern.startsWith('^[^') ? fc.stringMatching(new RegExp(pattern)) : plain;
}

function clamp(n: number, min: number, max: number): number {
  return Math.min(Math.max(n, min), max);
}

const broken = [
  ['', ' ', '\u0000', 'a\u0000b', '\ud800', '\udfff\ud800', '\ufeff', '\u202e', '\u2028', '🏳️‍🌈', 'İ', 'ﬃ', '٣', '１'],
  ['..', '../..', '/', '%', '%00', '%2f', '%ff', '\\', "'", '"', '`', ';', '--', '{}', '[]', 'null', 'undefined'],
  ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'NaN', 'Infinity', '-1', '0x10', '1e400', '00', '+1'],
  ["' or 1=1 --", '<script>', '{{7*7}}', '$(id)', '*', 'redis\r\nFLUSHALL', '\u001f', '\u007f', '\t\r\n'],
  ['9'.repeat(400), '0.'.padEnd(300, '0') + '1', 'x'.repeat(5_000), '🦀'.repeat(2_000), 'é'.repeat(129)],
].flat();

/** Texts that are known to break programs, and any others. */
export const oddTexts = fc.oneof(fc.constantFrom(...broken), fc.string({ unit: 'binary', maxLength: 30 }));

const nested = fc
  .constantFrom(3, 6, 12, 2_000)
  .map((depth) => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as unknown);

const strange = (
  [
    [null, true, false, 0, -0, -1, 1, 0.1, 1e-7, 1e21, 1e308, -1e308, 2 ** 31, 2 ** 53, 2 ** 63, 2 ** 64],
    [{}, [], [[]], [null], { length: 1e9 }, { toString: 1 }, { toJSON: null }, { $ne: 1 }, { raw: [] }],
    [Array.from({ length: 2_000 }, (_, i) => i)],
    [Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, i]))],
  ] as unknown[][]
).flat();

/** Values of any kind that hardly any field accepts. */
export const oddValues = fc.oneof(oddTexts, nested, fc.constantFrom(...strange), fc.double(), fc.jsonValue());

type Holder = Record<string, unknown>;

/** A value that is wrong in one place: it holds another value, lacks a field, or has a field too many. */
export function spoilt(value: unknown): fc.Arbitrary<unknown> {
  const places = placesOf(value);
  return fc.tuple(fc.nat(places.length - 1), oddValues, oddTexts, fc.nat(3)).map(([at, odd, field, how]) => {
    const copy = structuredClone({ root: value });
    const path = places[at]!;
    const last = path.at(-1)!;
    const holder = path.slice(0, -1).reduce((inner, key) => inner[key] as Holder, copy as Holder);
    if (how === 0 && path.length > 1) delete holder[last];
    else if (how === 1 && isObject(holder[last]))
      Object.defineProperty(holder[last], field, { value: odd, enumerable: true });
    else holder[last] = odd;
    return copy.root;
  });
}

function placesOf(value: unknown, path: string[] = ['root']): string[][] {
  const inner = isObject(value) || Array.isArray(value) ? Object.entries(value) : [];
  return [path, ...inner.slice(0, 20).flatMap(([key, one]) => placesOf(one, [...path, key]))].slice(0, 100);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
