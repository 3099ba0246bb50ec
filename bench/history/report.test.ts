import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { report } from './report.ts';
import type { Measured } from './run.ts';

const held: Measured = {
  name: 'all',
  seconds: 30,
  withinSeconds: 30,
  peaks: new Map([
    ['api', 511],
    ['clickhouse', 3_071],
  ]),
  others: { lateMs: 5_000, downMs: 60_000 },
};

test('each limit of a long history that is missed is named, and none that held', () => {
  const missedBy = (change: Partial<Measured>) => report([held, { ...held, ...change }]).missed;
  assert.equal(missedBy({}), []);
  assert.equal(missedBy({ seconds: 30.1 }), ['all: took 30.1 s, not 30']);
  assert.equal(missedBy({ others: { lateMs: 5_100, downMs: 0 } }), [`all: other records' usage was 5.1 s late`]);
  assert.equal(missedBy({ peaks: new Map([['api', 512]]) }), ['all: api took 512 MB, not below 512']);
  assert.equal(missedBy({ peaks: new Map([['clickhouse', 3_072]]) }), ['all: clickhouse took 3072 MB, not below 3072']);
  assert.equal(missedBy({ wrong: 'it is not exact' }), ['all: it is not exact']);
});
