// What make does before it starts the stack of one machine, as a `node` that records its calls sees it.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkout } from './process/home.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'checkout');

test('the pages of the console are built where they are missing or older than what they are made of, and only there', () => {
  rmSync(folder, { recursive: true, force: true });
  for (const name of ['apps/stack', 'apps/console/src', 'apps/console/dist', 'shared/contract', 'node_modules/.bin'])
    mkdirSync(join(folder, name), { recursive: true });
  cpSync(join(checkout, 'apps/stack/install.sh'), join(folder, 'apps/stack/install.sh'));
  for (const name of ['package-lock.json', 'node_modules/.installed-lock.json']) write(name, '{}');
  write('node_modules/.bin/node', '#!/bin/sh\necho built >>calls && echo page >apps/console/dist/index.html\n');
  chmodSync(join(folder, 'node_modules/.bin/node'), 0o755);
  write('calls', '');
  for (const name of ['apps/console/src/main.tsx', 'shared/contract/caller.ts']) write(name, '');

  assert.is(install(), 1, 'they are missing');
  assert.is(install(), 1, 'nothing has changed');
  for (const [i, name] of ['apps/console/src/main.tsx', 'shared/contract/caller.ts', 'apps/console/src'].entries()) {
    const later = new Date(Date.now() + (i + 1) * 60_000);
    utimesSync(join(folder, name), later, later);
    assert.is(install(), i + 2, name);
    utimesSync(join(folder, 'apps/console/dist/index.html'), later, later);
    assert.is(install(), i + 2, 'nothing has changed since');
  }
});

test.run();

function write(name: string, text: string): void {
  writeFileSync(join(folder, name), text);
}

/** Installs what is missing; gives how often the pages were built until now. */
function install(): number {
  const { status, stderr } = spawnSync('sh', ['apps/stack/install.sh'], { cwd: folder, encoding: 'utf8' });
  assert.is(status, 0, stderr);
  return readFileSync(join(folder, 'calls'), 'utf8').split('\n').length - 1;
}
