import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { storm } from './storm.ts';

const test = suite('a storm of events');

test('while every program is killed, and a receiver fails half the time, each event arrives under one id, signed', async () => {
  const { events, failing, steady } = await storm({ events: 500, roundMs: 0, say: () => {} });
  assert.ok(events >= 500, String(events));
  for (const { missing, doubled, unsigned } of [failing, steady])
    assert.equal({ missing, doubled, unsigned }, { missing: [], doubled: [], unsigned: 0 });
  assert.ok(failing.requests > events, 'it was tried again');
});

test.run();
