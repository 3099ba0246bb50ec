// What make does before it starts the stack of one machine, as a `node` that records its calls sees it.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../tests/helpers/eventually.ts';
import { checkout } from './process/home.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'checkout');

test('the pages of the console are built where they are missing or older than what they are made of, and only there', () => {
  rmSync(folder, { recursive: true, force: true });
  for (const name of ['apps/stack', 'apps/console/src', 'apps/console/dist', 'shared/contract', 'node_modules/.bin'])
    mkdirSync(join(folder, name), { recursive: true });
  cpSync(join(checkout, 'apps/stack/install.sh'), join(folder, 'apps/stack/install.sh'));
  for (const name of ['package-lock.json', 'node_modules/.installed-lock.json']) write(name, '{"packages":{}}');
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

test('a second installation says that it waits for the first, by a lock that other users cannot hold, and installs nothing again', async () => {
  mkdirSync(join(folder, 'bin'));
  // Installs until something is written to `go`.
  write('bin/npm', '#!/bin/sh\necho installed >>calls && exec cat go\n');
  chmodSync(join(folder, 'bin/npm'), 0o755);
  execFileSync('mkfifo', [join(folder, 'go')]);
  write('package-lock.json', '{"packages":{},"version":2}');
  write('calls', '');
  const first = start();
  await eventually('it installs', async () => readFileSync(join(folder, 'calls'), 'utf8') === 'installed\n');
  assert.is(statSync(join(folder, '.install.lock')).mode & 0o777, 0o600);
  const second = start();
  await eventually('it waits', async () => second.printed() === 'waiting for another installation in this checkout\n');
  write('go', '');
  for (const one of [first, second]) assert.equal(await one.ended, [0, null]);
  assert.equal(readFileSync(join(folder, 'calls'), 'utf8').match(/installed/g), ['installed']);
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

/** Starts an installation by the test's own npm. */
function start() {
  const PATH = [join(folder, 'bin'), dirname(process.execPath), process.env.PATH].join(':');
  const child = spawn('sh', ['apps/stack/install.sh'], {
    cwd: folder,
    env: { PATH },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more: string) => (text += more));
  return { ended: once(child, 'exit'), printed: () => text };
}
