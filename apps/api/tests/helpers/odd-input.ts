// Requests that nobody should send, made from good ones.
import * as fc from 'fast-check';

const broken = [
  ['', ' ', '\u0000', 'a\u0000b', '\ud800', '\udfff\ud800', '\ufeff', '\u202e', '\u2028', '🏳️‍🌈', 'İ', 'ﬃ', '٣', '１'],
  ['..', '../..', '/', '%', '%00', '%2f', '%ff', '\\', "'", '"', '`', ';', '--', '{}', '[]', 'null', 'undefined'],
  ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'NaN', 'Infinity', '-1', '0x10', '1e400', '00', '+1'],
  ["' or 1=1 --", '<script>', '{{7*7}}', '$(id)', '*', 'redis\r\nFLUSHALL', '\u001f', '\u007f', '\t\r\n', '1e3'],
  ['9'.repeat(400), '0.'.padEnd(300, '0') + '1', 'x'.repeat(5_000), '🦀'.repeat(2_000), 'é'.repeat(129)],
].flat();
const strange: unknown[] = [
  [-0, 1e-7, 1e21, 1e308, 2 ** 31, 2 ** 53, 2 ** 64, { length: 1e9 }, { toString: 1 }, { toJSON: null }, { $ne: 1 }],
  [Array.from({ length: 2_000 }, (_, i) => i), JSON.parse('['.repeat(2_000) + ']'.repeat(2_000))],
].flat();

/** Texts that are known to break programs, and any others. */
export const oddTexts = fc.oneof(fc.constantFrom(...broken), fc.string({ unit: 'binary', maxLength: 30 }));
const oddValues = fc.oneof(oddTexts, fc.constantFrom(...strange), fc.double(), fc.jsonValue());

/** How a value is wrong in one place: it holds another value, lacks a field, or has a field too many. */
export const faults = fc.record({ place: fc.nat(), how: fc.nat(3), value: oddValues, field: oddTexts });

type Holder = Record<string, unknown>;
type Fault = typeof faults extends fc.Arbitrary<infer One> ? One : never;

/** The value with a fault in one of its parts. */
export function spoilt<Value extends object>(whole: Value, { place, how, value, field }: Fault): Value {
  const copy = structuredClone(whole);
  const places = placesOf(copy).slice(1);
  const path = places[place % places.length];
  if (!path) return copy;
  const last = path.at(-1)!;
  const holder = path.slice(0, -1).reduce<Holder>((inner, key) => inner[key] as Holder, copy as Holder);
  const inner = holder[last];
  if (how === 0) delete holder[last];
  else if (how === 1 && typeof inner === 'object' && inner !== null)
    Object.defineProperty(inner, field, { value, enumerable: true });
  else holder[last] = value;
  return copy;
}

function placesOf(value: unknown, path: string[] = []): string[][] {
  const inner = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  return [path, ...inner.slice(0, 20).flatMap(([key, one]) => placesOf(one, [...path, key]))];
}

const written: ((text: string) => string | Buffer)[] = [
  (text) => text.slice(0, text.length / 2),
  (text) => `\ufeff${text}`,
  (text) => text.replace('{', '{"name":1,"name":2,'),
  (text) => text.replace('{', '{"__proto__":{"x":1},'),
  (text) => text + ' '.repeat(70_000),
  () => '['.repeat(200_000),
  () => '{"a":'.repeat(2_500) + '1' + '}'.repeat(2_500),
  (text) => Buffer.from(text, 'utf16le'),
  (text) => Buffer.concat([Buffer.from(text), Buffer.from([0xff, 0xc0, 0xaf])]),
  ...['', 'null', '1e999'].map((text) => () => text),
];

/** Ways to send a body that is JSON, and others. */
export const encodings = fc.oneof(
  { arbitrary: fc.constant((text: string) => text), weight: 14 },
  fc.constantFrom(...written),
);

/** What stands behind a path. */
export const suffixes = fc.oneof(
  { arbitrary: fc.constant(''), weight: 20 },
  fc.constantFrom('/', '/x', '//', '%00', '/..', ';a=b', '#x', '\\', '.json', '?a=1&a=2', '?%zz=%', '?__proto__=1'),
);

const names = ['Authorization', 'Content-Type', 'Idempotency-Key', 'X-Request-Id', 'Accept', 'Cookie'];
const lines = [
  ['Authorization: Basic a2V5Og==', 'Content-Type: application/json; charset=utf-16', 'Content-Encoding: br, gzip'],
  ['Idempotency-Key: again', `X-Request-Id: ${'x'.repeat(5_000)}`, 'Accept: text/csv;q=x, */*;q=1e999', 'Host: other'],
  ['X-Forwarded-For: ,,, , 1.2.3.4, ::ffff:999', 'X-HTTP-Method-Override: DELETE', 'Expect: miracles'],
  ['Range: bytes=0-0', 'Connection: Upgrade', `X-Long: ${'x'.repeat(20_000)}`],
].flat();
const anyLine = fc.tuple(fc.constantFrom(...names), fc.stringMatching(/^[\t -~\u00e9\u00ff]{0,60}$/));

const oddLine = fc.oneof(
  anyLine.map((pair) => pair.join(': ')),
  fc.constantFrom(...lines),
);

/** Lines of headers beside those of a good request. */
export const oddHeaders = fc.oneof(
  { arbitrary: fc.constant<string[]>([]), weight: 8 },
  fc.array(oddLine, { minLength: 1, maxLength: 3 }),
);
