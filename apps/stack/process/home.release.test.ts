import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { mountDisk, unmountBelow } from '../../../tests/helpers/disk.ts';
import { checkout, findSupervisor, masterKeyFile, openHome, takeHome } from './home.ts';

// Processes that want one home, and a full disk.

const folder = process.env.TEST_FOLDER ?? '';
test.after(() => unmountBelow(folder));

test('a home is one process’s at a time, over the note of one that is gone, until that leaves it or is killed; all get one master key', () => {
  const home = openHome({ KEYTALLY_HOME: join(folder, 'wanted') });
  mkdirSync(home.folder, { recursive: true });
  const gone = { pid: 1, startedAt: 'long ago', apiPort: 8080 };
  writeFileSync(join(home.folder, 'supervisor.json'), JSON.stringify(gone));
  // Another process takes it, and is killed with the lock in its hand.
  const code = `
    import { readFileSync } from 'node:fs';
    const { masterKeyFile, takeHome } = await import(process.argv[1] + '/apps/stack/process/home.ts');
    const home = { folder: process.argv[2] };
    let took = true;
    try { globalThis.leave = takeHome(home); }
    catch (error) { took = /was just taken/.test(error.message) ? false : error.message; }
    console.log(JSON.stringify({ took, key: readFileSync(masterKeyFile(home), 'utf8') }));
    process.kill(process.pid, 'SIGKILL');`;
  const other = () =>
    JSON.parse(
      spawnSync(process.execPath, ['--input-type=module', '-e', code, checkout, home.folder]).stdout.toString(),
    );
  const { took, key } = other();
  assert.is(took, true);
  const leave = takeHome(home);
  assert.is(findSupervisor(home)?.pid, process.pid);
  assert.equal(other(), { took: false, key });
  assert.match(key, /^[\w+/]{43}=\n$/);
  leave(home);
  assert.not.ok(existsSync(join(home.folder, 'supervisor.json')));
  assert.equal(readdirSync(home.folder).toSorted(), ['lock', 'master.key']);
});

test('a start that cannot have its home says why where systemd keeps it, and names the file', () => {
  const home = join(folder, 'serve');
  const lock = join(home, 'lock');
  // Cannot be opened as a file, by root neither.
  mkdirSync(lock, { recursive: true });
  const env = { ...process.env, KEYTALLY_HOME: home };
  const serve = [join(checkout, 'apps/stack/main.ts'), 'serve'];
  const { status, stdout } = spawnSync(process.execPath, serve, { encoding: 'utf8', env });
  assert.is(status, 1);
  assert.match(stdout, `could not start: ${lock} could not be locked: `);
});

test('a full disk leaves no part of a master key, which would be taken for one', async () => {
  const home = openHome({ KEYTALLY_HOME: join(folder, 'full') });
  const disk = await mountDisk(home.folder, 1);
  await disk.fill();
  assert.throws(() => masterKeyFile(home), /ENOSPC/);
  assert.equal(readdirSync(home.folder), ['filler']);
  disk.free();
  assert.match(readFileSync(masterKeyFile(home), 'utf8'), /^[\w+/]{43}=\n$/);
});
