import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeRandom } from '../helpers/random.ts';
import { faults } from './breaking/faults.ts';
import { rulesOfTime } from './checks/time.ts';
import { play } from './play.ts';

const SEED = 7;

/** Tests that a few faults, by their names, break nothing on one stage; `make faults` makes all of them. */
export function testFaults(guarantee: string, names: string[]): void {
  const folder = process.env.TEST_FOLDER ?? '';
  const test = suite('faults');
  test(guarantee, async () => {
    // No deadline is judged here, and what a busy machine does too slowly for one would be answered 503 each time.
    const kind = { bus: 'redis', requestDeadlineMs: 30_000 } as const;
    const acts = [{ kind, faults: faults.filter(({ name }) => names.includes(name)) }];
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
}
