import { spawnSync } from 'node:child_process';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

test('a wrong command line gets one line that says what is right', () => {
  for (const args of [[], ['--team'], ['--team='], ['--name', 'x'], ['--team', 'x'.repeat(129)]]) {
    const { status, stderr, stdout } = spawnSync(process.execPath, ['apps/api/commands/token.ts', ...args], {
      encoding: 'utf8',
    });
    assert.is(status, 2);
    assert.match(stderr, /^name the team, in at most 128 characters: .*\n$/);
    assert.is(stdout, '');
  }
});

test.run();
