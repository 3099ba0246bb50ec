import { globSync, readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { decodeEvent, eventFields, EVENT_FIELD, UnreadableEvent } from './event.ts';
import { newId } from '../values/ids.ts';
import { anyEvents } from '../../tests/helpers/any-events.ts';
import { encodeEvent, testEvent, testLine } from '../../tests/helpers/events.ts';
import { readEvents } from '../../tests/helpers/outbox.ts';

const event = testEvent({ billingId: newId('bill'), usedMicros: Number.MAX_SAFE_INTEGER });

test('an event that is written and read again is the same event and the same bytes, whatever its texts hold', () => {
  fc.assert(
    fc.property(anyEvents, (events) => {
      for (const event of events) {
        const value = encodeEvent(event);
        assert.equal(decodeEvent(Buffer.from(value)), event, 'from Kafka');
        const [read] = readEvents([EVENT_FIELD, value]);
        assert.equal(read, event, 'from the outbox');
        assert.is(encodeEvent(read!), value, 'the same bytes');
      }
    }),
    { numRuns: 10 },
  );
});

test('what is no event, or a line without what it has to say, is refused with the name of the wrong field, never with its content', () => {
  const made = [event, ...(['hold', 'moment', 'capture'] as const).map((kind) => testLine(kind, {}))];
  const [value, hold, moment, capture] = made.map((one) => JSON.parse(encodeEvent(one)) as Record<string, unknown>);
  const wrong: [unknown, RegExp][] = [
    [null, /not a JSON object/],
    [[], /field i is missing/],
    [{ ...value, i: 'secret' }, /field i is not an id/],
    [{ ...value, b: 7 }, /field b is missing/],
    [{ ...value, v: '' }, /field v is not an id/],
    [{ ...value, t: 1 }, /field t is not a whole number of its range/],
    [{ ...value, t: 9_999_999_999_999 }, /field t is not a whole number of its range/],
    [{ ...value, c: -1 }, /field c is not/],
    [{ ...value, c: 0.5 }, /field c is not/],
    [{ ...value, c: '1' }, /field c is not/],
    [{ ...value, u: 2 ** 53 }, /field u is not/],
    [{ ...value, r: 'half \ud800 a pair' }, /field r is not well-formed text/],
    [{ ...value, x: 'adjustment', d: 'today' }, /field d is not a day/],
    [{ ...value, x: 'adjustment', d: '2026-02-30' }, /field d is not a day/],
    [{ ...value, x: 'adjustment', d: '1969-12-31' }, /field d is not a day/],
    [{ ...value, x: 'adjustment', d: '9999-99-99' }, /field d is not a day/],
    [{ ...value, x: 'refund' }, /field x is not a kind/],
    [{ ...value, r: undefined }, /field r is missing/],
    [{ ...hold, o: undefined }, /field o is missing/],
    [{ ...hold, o: 'secret' }, /field o is not a hold/],
    [{ ...hold, m: undefined }, /field m is not a whole number/],
    [{ ...hold, m: -1 }, /field m is not a whole number/],
    [{ ...hold, f: undefined }, /field f is empty/],
    [{ ...hold, h: -1 }, /field h is not a whole number/],
    [{ ...hold, k: '' }, /field k is not an id/],
    [{ ...hold, b: '' }, /field b is not an id/],
    [{ ...hold, c: 1 }, /field c is not a whole number/],
    [{ ...hold, l: 7 }, /field l is missing/],
    [{ ...moment, g: '' }, /field g is not a list/],
    [{ ...moment, g: [[1]] }, /field g is not a list of changes/],
    [{ ...moment, g: [[1, 0.5]] }, /field g is not a whole number/],
    [{ ...moment, c: -1 }, /field c is not a whole number/],
    [{ ...capture, c: -1 }, /field c is not a whole number/],
  ];
  for (const [one, message] of wrong)
    assert.throws(() => decodeEvent(Buffer.from(JSON.stringify(one))), isUnreadable(message));
  assert.throws(() => decodeEvent(Buffer.from('{"i":"secret')), isUnreadable(/^the value is not JSON$/));
  assert.throws(() => decodeEvent(null), isUnreadable(/^there is no value$/));
});

test('the Lua scripts write exactly the JSON names that the table of fields has for what only Redis knows', () => {
  const folder = new URL('../stores/lua/', import.meta.url);
  const sources = globSync('**/*.lua', { cwd: folder }).map((name) => readFileSync(new URL(name, folder), 'utf8'));
  const code = sources.join('\n').replace(/--.*$/gm, '');
  const written = new Set([...code.matchAll(/"(\w)":/g)].map(([, name]) => name!));
  const { timeMs, keyId, billingId, workspaceId, customerId, usedMicros, sequence, epoch } = eventFields;
  const known = [timeMs, keyId, billingId, workspaceId, customerId, usedMicros, sequence, epoch];
  // Lines of moments and of holds are a script's own.
  const { kind, id, route, costMicros, usageName, heldMicros, holdId, holdMicros, detail, classes, crossed } =
    eventFields;
  const own = [kind, id, route, costMicros, usageName, heldMicros, holdId, holdMicros, detail, classes, crossed];
  assert.equal([...written].toSorted(), [...known, ...own].map(({ json }) => json).toSorted());
});

test('no two fields share a JSON name or a column', () => {
  const fields = Object.values(eventFields);
  assert.is(new Set(fields.map(({ json }) => json)).size, fields.length);
  assert.is(new Set(fields.map(({ column }) => column)).size, fields.length);
});

function isUnreadable(message: RegExp) {
  return (error: Error) =>
    error instanceof UnreadableEvent && message.test(error.message) && !error.message.includes('secret');
}
