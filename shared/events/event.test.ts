import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeEvent, encodeEvent, EVENT_FIELD, readEvent, UnreadableEvent } from './event.ts';
import { newId } from '../values/ids.ts';
import { testEvent } from '../../tests/helpers/events.ts';

const event = testEvent({ billingId: newId('bill'), usedMicros: Number.MAX_SAFE_INTEGER });

const micros = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const text = fc.string({ unit: 'grapheme' });
const timeMs = fc.integer({ min: Date.UTC(2020, 0), max: Date.UTC(2149, 0) });
const signed = fc.integer({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER });
const verifications = fc
  .record({
    billingId: fc.constantFrom('', event.billingId),
    timeMs,
    usageName: text,
    route: text,
    costMicros: micros,
    usedMicros: signed,
    sequence: micros,
    epoch: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  })
  .map(testEvent);
const adjustments = fc
  .record({ timeMs, usageName: text, actor: text, reason: text, costMicros: signed, usedMicros: signed })
  .map((some) => testEvent({ ...event, ...some, kind: 'adjustment', keyId: '', day: '2026-01-31', number: 7 }));
const others = fc
  .constantFrom('settlement' as const, 'witness' as const)
  .map((kind) => testEvent({ kind, keyId: '', billingId: event.billingId, costMicros: 0 }));
const events = fc.oneof(verifications, adjustments, others);

test('an event comes out of Kafka as it went in, whatever its texts hold, and is what the outbox had', () => {
  fc.assert(
    fc.property(events, (one) => {
      const value = encodeEvent(one);
      assert.equal(decodeEvent(Buffer.from(value)), one);
      const entry = [EVENT_FIELD, value];
      assert.equal(readEvent(entry), one, 'the entry that it came from');
      assert.is(encodeEvent(readEvent(entry)), value, 'again, it is the same bytes');
    }),
  );
});

test('what is no event is told by its field and never by its content', () => {
  const value = JSON.parse(encodeEvent(event)) as Record<string, unknown>;
  const wrong: [unknown, RegExp][] = [
    [null, /not a JSON object/],
    [[], /field i is missing/],
    [{ ...value, i: 'secret' }, /field i is not an id/],
    [{ ...value, b: 7 }, /field b is missing/],
    [{ ...value, t: 1 }, /field t is not a whole number of its range/],
    [{ ...value, c: -1 }, /field c is not/],
    [{ ...value, c: 0.5 }, /field c is not/],
    [{ ...value, c: '1' }, /field c is not/],
    [{ ...value, u: 2 ** 53 }, /field u is not/],
    [{ ...value, x: 'adjustment', d: 'today' }, /field d is not a day/],
    [{ ...value, x: 'refund' }, /field x is not a kind/],
    [{ ...value, r: undefined }, /field r is missing/],
  ];
  for (const [one, message] of wrong)
    assert.throws(() => decodeEvent(Buffer.from(JSON.stringify(one))), isUnreadable(message));
  assert.throws(() => decodeEvent(Buffer.from('{"i":"secret')), isUnreadable(/^the value is not JSON$/));
  assert.throws(() => decodeEvent(null), isUnreadable(/^there is no value$/));
});

test.run();

function isUnreadable(message: RegExp) {
  return (error: Error) =>
    error instanceof UnreadableEvent && message.test(error.message) && !error.message.includes('secret');
}
