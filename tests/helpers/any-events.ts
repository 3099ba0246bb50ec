import * as fc from 'fast-check';
import { decodeEvent, UnreadableEvent, type UsageEvent } from '../../shared/events/event.ts';
import { eventKinds, FREE } from '../../shared/events/event-kinds.ts';
import { newId } from '../../shared/values/ids.ts';

const oddUnit = fc.oneof(
  fc.constantFrom('\0', '\n', "'", '"', '\\', '\ufeff', '{', '\u2028'),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
);
const oddText = fc.oneof(
  { arbitrary: fc.string({ unit: oddUnit, maxLength: 20 }), weight: 20 },
  fc.constantFrom('\ud800', 'a\ud800', '\udfff', '\udfff\ud800', '\ud83d\ude00'),
);
const oddNumber = fc.oneof(
  fc.constantFrom(0, -0, 1, -1, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, -(2 ** 53) + 1, 2 ** 53, 0.5),
  fc.maxSafeInteger(),
);
const day = fc.oneof(
  fc.constantFrom('0000-00-00', '1969-12-31', '1970-01-01', '2026-02-29', '2024-02-29', '2026-02-30', '2026-13-01'),
  fc.constantFrom('2149-06-06', '2149-06-07', '2299-12-31', '9999-99-99', '2026-00-10', '2026-01-00', '2026-01-32'),
  fc
    .tuple(fc.integer({ min: 0, max: 9999 }), fc.integer({ min: 0, max: 99 }), fc.integer({ min: 0, max: 99 }))
    .map(([y, m, d]) => `${String(y).padStart(4, '0')}-${String(m).padStart(2, '0')}-${String(d).padStart(2, '0')}`),
);
const likely = <Value>(value: Value, odd: fc.Arbitrary<Value>) =>
  fc.oneof({ arbitrary: fc.constant(value), weight: 3 }, odd);

/** The JSON of entries, many of which decode, with values at and beyond the ends of what a field may be. */
const entries = fc
  .record({
    x: fc.constantFrom(...eventKinds),
    r: oddText,
    c: likely(1, oddNumber),
    n: oddText,
    t: likely(Date.UTC(2026, 8, 15), fc.integer({ min: Date.UTC(2019, 11, 31), max: Date.UTC(2149, 0, 2) })),
    u: likely(1, oddNumber),
    s: likely(1, oddNumber),
    e: likely(1, oddNumber),
    d: day,
    a: likely(1, oddNumber),
    w: oddText,
    y: oddText,
    h: likely(1, oddNumber),
    m: likely(1, oddNumber),
    f: oddText,
    g: fc.array(fc.tuple(fc.nat(), likely(1, oddNumber), fc.constantFrom(0, -5), fc.constantFrom(0, 7)), {
      maxLength: 3,
    }),
    l: oddText,
    p: oddText,
  })
  .map((fields) => {
    const free = FREE.has(fields.x) && { c: 0 };
    const ids = {
      i: newId('evt'),
      k: newId('key'),
      b: newId('bill'),
      v: newId('ws'),
      o: newId('evt').slice('evt_'.length),
    };
    return JSON.stringify({ ...fields, ...free, ...ids });
  });

/** Some events of all kinds, with anything in their fields that decodes. */
export const anyEvents = fc
  .array(entries, { minLength: 50, maxLength: 200 })
  .map((all) => all.map(decoded).filter((event) => event !== undefined));

function decoded(json: string): UsageEvent | undefined {
  try {
    return decodeEvent(json);
  } catch (error) {
    if (error instanceof UnreadableEvent) return undefined;
    throw error;
  }
}
