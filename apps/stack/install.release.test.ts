// What make does before it starts the stack of one machine, as a `node` and an `npm` that record their calls see it.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../tests/helpers/eventually.ts';
import { checkout } from './process/home.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'checkout');
const write = (name: string, text: string, mode = 0o644) => writeFileSync(join(folder, name), text, { mode });
const calls = () => readFileSync(join(folder, 'calls'), 'utf8');

test('the pages of the console are built where they are missing or older than what they are made of, and only there', () => {
  for (const name of ['apps/stack', 'apps/console/src', 'apps/console/dist', 'shared/contract', 'node_modules/.bin'])
    mkdirSync(join(folder, name), { recursive: true });
  cpSync(join(checkout, 'apps/stack/install.sh'), join(folder, 'apps/stack/install.sh'));
  for (const name of ['package-lock.json', 'node_modules/.installed-lock.json']) write(name, '{"packages":{}}');
  const build = '#!/bin/sh\necho built >>calls && echo page >apps/console/dist/index.html\n';
  write('node_modules/.bin/node', build, 0o755);
  write('calls', '');
  for (const name of ['apps/console/src/main.tsx', 'shared/contract/caller.ts']) write(name, '');
  const install = () => {
    const { status, stderr } = spawnSync('sh', ['apps/stack/install.sh'], { cwd: folder, encoding: 'utf8' });
    assert.is(status, 0, stderr);
    return calls().split('\n').length - 1;
  };

  assert.equal([install(), install()], [1, 1], 'they are missing, then nothing has changed');
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
  write('bin/npm', '#!/bin/sh\necho installed >>calls && exec cat go\n', 0o755);
  execFileSync('mkfifo', [join(folder, 'go')]);
  write('package-lock.json', '{"packages":{},"version":2}');
  write('calls', '');
  const PATH = [join(folder, 'bin'), dirname(process.execPath), process.env.PATH].join(':');
  const start = () => {
    const child = spawn('sh', ['apps/stack/install.sh'], {
      cwd: folder,
      env: { PATH },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let printed = '';
    child.stdout.setEncoding('utf8').on('data', (more: string) => (printed += more));
    return { ended: once(child, 'exit'), printed: () => printed };
  };
  const first = start();
  await eventually('it installs', async () => calls() === 'installed\n');
  assert.is(statSync(join(folder, '.install.lock')).mode & 0o777, 0o600);
  const second = start();
  await eventually('it waits', async () => second.printed() === 'waiting for another installation in this checkout\n');
  write('go', '');
  for (const one of [first, second]) assert.equal(await one.ended, [0, null]);
  assert.equal(calls().match(/installed/g), ['installed']);
});
