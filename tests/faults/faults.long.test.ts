import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { rulesOfTime } from './checks/time.ts';
import { faults } from './breaking/faults.ts';
import { play } from './play.ts';
import { makeRandom } from '../helpers/random.ts';

// A few faults on one stage; `make faults` makes all of them.
const SEED = 7;
const names = ['redis frozen', 'answers of Redis lost after the script ran', 'kill -9 of redis'];

const folder = process.env.TEST_FOLDER ?? '';

test('while Redis dies, loses answers and freezes, every call is debited once or not at all', async () => {
  const acts = [{ kind: { bus: 'redis' } as const, faults: faults.filter(({ name }) => names.includes(name)) }];
  assert.is(acts[0]!.faults.length, names.length);
  const kept = join(folder, 'history');
  const random = makeRandom(SEED);
  const { cases, violations } = await play({ acts, seed: SEED, random, folder, kept, say: console.log });
  assert.equal(
    violations.filter(({ rule }) => !rulesOfTime.has(rule)),
    [],
  );
  for (const { fault, verified, records } of cases) {
    assert.ok(verified.filter(({ status }) => status === 'VALID').length > 100, `${fault}: too few calls`);
    assert.ok(records.every(({ rows }) => rows.length > 0));
  }
});

test.run();
