// The tests in Python beside this file, on a stack of their own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { basename } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeWorld, must } from '../../../tests/helpers/world.ts';

const world = await makeWorld(['verify']);
const { workspace } = (await must(201, world.call('post', '/api/v1/workspace', { name: 'w' }))).body;
const env = {
  API_URL: world.api.url,
  VERIFY_URL: world.verify!.url,
  TOKEN: world.team.token,
  WORKSPACE: workspace.id as string,
};

for (const file of globSync('test_*.py', { cwd: import.meta.dirname }).toSorted()) {
  test(`each test of ${file} passes`, async () => {
    const module = basename(file, '.py');
    const child = spawn('python3', ['-m', 'unittest', '-v', module], {
      cwd: import.meta.dirname,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const ended = once(child, 'close');
    const said = await text(child.stderr);
    const [code] = (await ended) as [number | null];
    process.stdout.write(said);
    assert.is(code, 0, said);
    // A file without tests, and one whose tests are left out, would pass too.
    assert.match(said, /^Ran [1-9]\d* tests? in [^]*^OK$/m, said);
  });
}
