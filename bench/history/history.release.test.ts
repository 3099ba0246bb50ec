import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { measureHistory } from './run.ts';

// What `make history` measures with 100,000,000 events is exact here, with few. The limits of time are those of that target;
// ten times as much must be enough on any machine.
const EVENTS = 300_000;
const RECORDS = 1_500;
const DAYS = 20;
const PATIENCE = 10;

test('a long history stays exact through a rebuild, a lost Redis, late events, lost rows and a killed api', async () => {
  const measured = await measureHistory({
    events: EVENTS,
    records: RECORDS,
    days: DAYS,
    patience: PATIENCE,
    say: console.log,
    told: () => {},
  });
  assert.equal(
    measured.flatMap(({ name, wrong }) => (wrong === undefined ? [] : [`${name}: ${wrong}`])),
    [],
  );
});
