import { spawnSync } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { systemClock, untilNext } from './clock.ts';

test('a deadline keeps no process alive that has done its work before', () => {
  const program = `
    import { abortAfter, systemClock } from '${new URL('./clock.ts', import.meta.url).href}';
    abortAfter(systemClock, 3_600_000);`;
  const args = ['--input-type=module', '--eval', program];
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 60_000 });
  assert.is(status, 0, stderr);
});

test('what waits for moments of the same kind waits until the next of them, whenever it began', () => {
  const at = (monotonicMs: number) => untilNext({ ...systemClock, monotonic: () => monotonicMs }, 1_000);
  // A timer that fired a little early does not fire again at once.
  assert.equal([at(0), at(2_300.4), at(2_999.5)], [1_000, 700, 1_001]);
});
