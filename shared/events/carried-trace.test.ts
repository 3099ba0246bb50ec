// The trace that an event carries: what is read of it, and what a reader that knows nothing of it reads.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { encodeEvent, testEvent, testLine } from '../../tests/helpers/events.ts';
import { newId } from '../values/ids.ts';
import { carryEvent } from './carried-event.ts';
import { readTrace, traceHeaders, tracePart } from './carried-trace.ts';
import { decodeEvent, type UsageEvent } from './event.ts';

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const billingId = newId('bill');
const events: UsageEvent[] = [
  testEvent({ billingId, route: 'GET /documents', workspaceId: newId('ws') }),
  testEvent({ billingId, route: '/漢"\\' }),
  ...(['hold', 'capture', 'release', 'extension', 'correction'] as const).map((kind) => testLine(kind, { billingId })),
];

/** The JSON of an event as the script writes it of a traced call. */
function traced(event: UsageEvent, part = tracePart(TRACE)): string {
  return encodeEvent(event).replace('"r":', `${part}"r":`);
}

test('an event is carried as without the trace, and the trace beside it', () => {
  for (const event of events) {
    const plain = carryEvent(Buffer.from(encodeEvent(event)));
    assert.equal(plain, { ...event, json: encodeEvent(event) });
    assert.equal(carryEvent(Buffer.from(traced(event))), { ...plain, trace: TRACE });
  }
});

test('what is no trace of a sampled call, or stands elsewhere, is none', () => {
  const [event] = events;
  for (const wrong of [TRACE.replace(/1$/, '0'), TRACE.slice(1), `${TRACE}"`, 'x'])
    assert.is(carryEvent(Buffer.from(traced(event!, `"z":"${wrong.replace('"', '\\"')}",`))).trace, undefined);
  const inRoute = testEvent({ billingId, route: tracePart(TRACE) });
  const carried = carryEvent(Buffer.from(encodeEvent(inRoute)));
  assert.equal([carried.trace, decodeEvent(carried.json).route], [undefined, inRoute.route]);
});

test('a trace goes on in the header of a Kafka record, and an event without one gets none', () => {
  assert.equal(tracePart(''), '');
  assert.equal(traceHeaders(undefined), {});
  const headers = traceHeaders(TRACE);
  assert.equal(headers, { traceparent: TRACE });
  assert.equal(readTrace({ traceparent: Buffer.from(TRACE) }), { trace: TRACE });
  for (const other of [{}, { traceparent: 'x' }]) assert.equal(readTrace(other), {});
});
