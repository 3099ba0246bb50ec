import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

test('a start that cannot have its home says why where systemd keeps it, and names the file', async () => {
  const home = join(process.env.TEST_FOLDER ?? '', 'daemon');
  const lock = join(home, 'lock');
  // Cannot be opened as a file, by root neither.
  mkdirSync(lock, { recursive: true });
  const daemon = join(import.meta.dirname, 'daemon.ts');
  const outcome = promisify(execFile)(process.execPath, [daemon, '--home', home]);
  const { code, stdout } = (await outcome.catch((error: unknown) => error)) as { code: number; stdout: string };
  assert.is(code, 1);
  assert.ok(stdout.includes(`could not start: ${lock} could not be locked: `), stdout);
});

test.run();
