import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { testEvent, testLine } from '../../tests/helpers/events.ts';
import { newId } from '../values/ids.ts';
import { carryDecoded, carryEvent } from './carried-event.ts';
import { encodeEvent } from './event.ts';

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

const classes = fc.array(fc.tuple(fc.nat(), number(-MAX, MAX)), { minLength: 1, maxLength: 3 });
const lines = fc
  .record({
    kind: fc.constantFrom('hold', 'capture', 'release', 'extension', 'correction', 'turn'),
    fields: fc.record({ heldMicros: number(0, MAX), crossed: text, classes }),
  })
  .map(({ kind, fields }) => testLine(kind, fields));
const ofAccounts = fc
  .record({ event: events, heldMicros: number(0, MAX), crossed: text })
  .map(({ event, ...more }) => ({ ...event, ...more }));

test('an event is handed on as the row and the JSON that decoding it gives, whatever its fields hold', () => {
  fc.assert(
    fc.property(fc.oneof(events, lines, ofAccounts), (event) => {
      assert.equal(carryEvent(Buffer.from(encodeEvent(event))), carryDecoded(event));
    }),
    { numRuns: 2_000 },
  );
});

test('a time beyond what the books can store is refused by its name', () => {
  const json = encodeEvent(testEvent({ timeMs: 1_700_000_000_000 }));
  for (const time of ['1500000000000', '9999999999999']) {
    const changed = Buffer.from(json.replace('1700000000000', time));
    assert.throws(() => carryEvent(changed), /field t is not a whole number of its range/);
  }
});
