import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { mountDisk, unmountBelow } from '../../../tests/helpers/disk.ts';
import { checkout, findSupervisor, masterKeyFile, openHome, takeHome } from './home.ts';
import { identify } from './processes.ts';

// Processes that want one home at the same moment, users who share a machine, and a full disk.

const ROUNDS = 12;
const homes = Array.from({ length: ROUNDS }, (_, i) => join(process.env.TEST_FOLDER ?? '', `home-${i}`));

test.before(() => {
  for (const home of homes) {
    mkdirSync(home, { recursive: true });
    const gone = { pid: 1, startedAt: 'long ago', apiPort: 8080 };
    writeFileSync(join(home, 'supervisor.json'), JSON.stringify(gone));
  }
});
test.after(() => unmountBelow(process.env.TEST_FOLDER ?? ''));

test('of processes that take a home at the same moment, over the note of one that is gone, one has it until it ends; all get one master key', async () => {
  const { processes, told } = await atOnce();
  for (const [i, home] of homes.entries()) {
    const turns = told.map((one) => one[i]!);
    const owners = processes.filter((_, number) => turns[number]!.took);
    assert.is(owners.length, 1, home);
    assert.is(findSupervisor({ folder: home })?.pid, owners[0]?.pid);
    const key = readFileSync(masterKeyFile(openHome({ KEYTALLY_HOME: home })), 'utf8');
    assert.match(key, /^[\w+/]{43}=\n$/);
    assert.equal(
      turns.map((turn) => turn.key),
      [key, key, key],
    );
  }
  for (const one of processes) {
    one.kill('SIGKILL');
    await once(one, 'exit');
  }
  const note = { ...identify(process.pid)!, apiPort: 8080, checkout };
  for (const home of homes) takeHome(openHome({ KEYTALLY_HOME: home }), note)({ folder: home });
  assert.not.ok(homes.some((home) => existsSync(join(home, 'supervisor.json'))));
  assert.equal(readdirSync(homes[0]!).toSorted(), ['lock', 'master.key']);
});

test('a start that cannot have its home says why where systemd keeps it, and names the file', () => {
  const home = join(process.env.TEST_FOLDER ?? '', 'daemon');
  const lock = join(home, 'lock');
  // Cannot be opened as a file, by root neither.
  mkdirSync(lock, { recursive: true });
  const daemon = [join(checkout, 'apps/stack/commands/daemon.ts'), '--home', home];
  const { status, stdout } = spawnSync(process.execPath, daemon, { encoding: 'utf8' });
  assert.is(status, 1);
  assert.match(stdout, `could not start: ${lock} could not be locked: `);
});

test('a full disk leaves no part of a master key, which would be taken for one', async () => {
  const home = openHome({ KEYTALLY_HOME: join(process.env.TEST_FOLDER ?? '', 'full') });
  const disk = await mountDisk(home.folder, 1);
  await disk.fill();
  assert.throws(() => masterKeyFile(home), /ENOSPC/);
  assert.equal(readdirSync(home.folder), ['filler']);
  disk.free();
  assert.match(readFileSync(masterKeyFile(home), 'utf8'), /^[\w+/]{43}=\n$/);
});

type Turn = { took: boolean; key: string };

/** Lets three processes try all homes at the same moments, and stay; gives what became of each try. */
async function atOnce(): Promise<{ processes: ChildProcess[]; told: Turn[][] }> {
  const code = `
    import { readFileSync } from 'node:fs';
    const { masterKeyFile, takeHome } = await import(process.argv[1] + '/apps/stack/process/home.ts');
    const { identify } = await import(process.argv[1] + '/apps/stack/process/processes.ts');
    globalThis.held = [];
    const turn = (folder) => {
      const key = readFileSync(masterKeyFile({ folder }), 'utf8');
      try {
        held.push(takeHome({ folder }, { ...identify(process.pid), apiPort: 8080, checkout: '' }));
        return { took: true, key };
      } catch (error) {
        if (!/was just taken/.test(error.message)) throw error;
        return { took: false, key };
      }
    };
    setInterval(() => {}, 60_000);
    process.send('ready');
    process.once('message', ({ folders, startAt, everyMs }) => {
      process.send(folders.map((folder, i) => {
        // A timer would be late by more than the moment that matters.
        while (Date.now() < startAt + i * everyMs);
        return turn(folder);
      }));
    });`;
  const processes = Array.from({ length: 3 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', code, checkout], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    }),
  );
  await Promise.all(processes.map((one) => once(one, 'message')));
  const answers = processes.map((one) => once(one, 'message') as Promise<[Turn[]]>);
  for (const one of processes) one.send({ folders: homes, startAt: Date.now() + 100, everyMs: 400 });
  return { processes, told: (await Promise.all(answers)).map(([told]) => told) };
}
