import { spawnSync } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

test('a deadline keeps no process alive that has done its work before', () => {
  const program = `
    import { abortAfter, systemClock } from '${new URL('./clock.ts', import.meta.url).href}';
    abortAfter(systemClock, 3_600_000);`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
    timeout: 60_000,
  });
  assert.is(status, 0, stderr);
});
