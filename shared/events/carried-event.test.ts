import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { testEvent, testLine } from '../../tests/helpers/events.ts';
import { newId } from '../values/ids.ts';
import { carryDecoded, carryEvent, rowOf, type CarriedEvent } from './carried-event.ts';
import { decodeEvent, encodeEvent, UnreadableEvent, type UsageEvent } from './event.ts';

const MAX = Number.MAX_SAFE_INTEGER;
const text = fc.oneof(
  fc.stringMatching(/^[ -~]{0,40}$/),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('', '"', '\\', '\u007f', '\n', '/v1/chat', 'é', '漢', '{}', '","c":1'),
);
const number = (min: number, max: number) =>
  fc.oneof(fc.integer({ min, max }), fc.constantFrom(min, max), fc.constantFrom(0, 10 ** 9, max - 1));
const events = fc
  .record({
    billingId: fc.constantFrom('', newId('bill')),
    timeMs: number(Date.UTC(2020, 0), Date.UTC(2149, 0)).filter((ms) => ms >= Date.UTC(2020, 0)),
    usageName: text,
    route: text,
    costMicros: number(0, MAX),
    usedMicros: number(-MAX, MAX),
    sequence: number(0, MAX),
    epoch: number(0, 2 ** 32 - 1),
  })
  .map(testEvent);

const lines = fc
  .record({
    kind: fc.constantFrom('hold', 'capture', 'release', 'extension', 'correction', 'turn'),
    fields: fc.record({ heldMicros: number(0, MAX), crossed: text, detail: fc.string({ minLength: 1 }) }),
  })
  .map(({ kind, fields }) => testLine(kind, fields));
const ofAccounts = fc
  .record({ event: events, heldMicros: number(0, MAX), crossed: text })
  .map(({ event, ...more }) => ({ ...event, ...more }));

test('an event is handed on as the row and the JSON that decoding it gives, whatever its fields hold', () => {
  fc.assert(
    fc.property(fc.oneof(events, lines, ofAccounts), (event) => {
      const json = encodeEvent(event);
      const carried = carryEvent(Buffer.from(json));
      assert.equal(parsed(carried), parsed(carryDecoded(event)));
      assert.is(carried.json, json);
    }),
    { numRuns: 2_000 },
  );
});

test('what one pattern takes for an event, decoding takes for the same one; what decoding refuses is refused', () => {
  const json = encodeEvent(testEvent({ billingId: newId('bill'), route: 'GET /users' }));
  const change = fc.record({
    at: fc.nat(json.length - 1),
    drop: fc.nat(2),
    insert: fc.oneof(
      fc.constantFrom('', '0', '-', '.', 'e', '"', '\\', ' ', '\n', ',', '}', '\0', '\x80', '\ud800', '9', '_', 'I'),
      fc.string({ maxLength: 2 }),
    ),
  });
  fc.assert(
    fc.property(change, ({ at, drop, insert }) => {
      const changed = Buffer.from(json.slice(0, at) + insert + json.slice(at + drop));
      const decoded = outcome(() => parsed(carryDecoded(decodeEvent(changed))));
      assert.equal(
        outcome(() => parsed(carryEvent(changed))),
        decoded,
      );
    }),
    { numRuns: 5_000 },
  );
});

test('a verification without an account takes the one pattern, and no other event does', () => {
  const carried = (event: UsageEvent) => carryEvent(Buffer.from(encodeEvent(event))).row;
  assert.is(carried(testEvent({ billingId: newId('bill') })), '');
  assert.is.not(carried(testEvent({ billingId: newId('bill'), heldMicros: 1 })), '');
  assert.is.not(carried(testLine('capture', {})), '');
});

test('a time beyond what the books can store is refused by its name', () => {
  const json = encodeEvent(testEvent({ timeMs: 1_700_000_000_000 }));
  for (const time of ['1500000000000', '9999999999999']) {
    const changed = Buffer.from(json.replace('1700000000000', time));
    assert.throws(() => carryEvent(changed), /field t is not a whole number of its range/);
  }
});

/** An event whose texts of JSON are compared by what they say: `-0` and `1.0` are written in more than one way. */
function parsed(event: CarriedEvent) {
  const { json, row: _, ...rest } = event;
  return { ...rest, json: JSON.parse(json) as unknown, row: JSON.parse(rowOf(event)) as unknown };
}

function outcome<Result>(run: () => Result): Result | 'refused' {
  try {
    return run();
  } catch (error) {
    if (error instanceof UnreadableEvent) return 'refused';
    throw error;
  }
}
