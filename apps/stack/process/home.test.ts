import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { mountDisk, unmountBelow } from '../../../tests/helpers/disk.ts';
import {
  checkout,
  copyMasterKey,
  envFile,
  findSupervisor,
  lockHome,
  masterKeyFile,
  openHome,
  readEnvFile,
  takeHome,
  writeEnvFile,
  type SupervisorNote,
} from './home.ts';
import { identify } from './processes.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'a home');
const token = "it's a $token";
const ROUNDS = 12;

test.before(() => {
  mkdirSync(folder, { recursive: true });
  writeEnvFile({ folder }, { KEYTALLY_TOKEN: token, DATABASE_URL: 'postgres://127.0.0.1/keytally' });
});

for (const shell of ['sh', 'bash', 'zsh'].filter(isInstalled)) {
  test(`after ${shell} reads the env file, its child processes have the token and no DATABASE_URL`, () => {
    const print =
      'process.stdout.write(JSON.stringify([process.env.KEYTALLY_TOKEN, process.env.DATABASE_URL ?? null]))';
    const script = `. "$FOLDER/env"; "$NODE" -e '${print}'; printf ' %s' "$DATABASE_URL"`;
    const env = { PATH: process.env.PATH, FOLDER: folder, NODE: process.execPath };
    const out = execFileSync(shell, ['-c', script], { encoding: 'utf8', env });
    assert.is(out, `${JSON.stringify([token, null])} postgres://127.0.0.1/keytally`);
  });
}

test('the env file is read back as it was written, also a file of the old form without export', () => {
  const values = { KEYTALLY_TOKEN: token, DATABASE_URL: 'postgres://127.0.0.1/keytally' };
  assert.equal(readEnvFile({ folder }), values);
  writeFileSync(
    envFile({ folder }),
    "KEYTALLY_TOKEN='it'\\''s a $token'\nDATABASE_URL='postgres://127.0.0.1/keytally'\n",
  );
  assert.equal(readEnvFile({ folder }), values);
});

test('a master key that was copied into a home is for its owner alone, however open its source is', () => {
  const source = join(folder, 'secret_of_compose');
  writeFileSync(source, 'a master key\n');
  chmodSync(source, 0o644);
  const home = openHome({ KEYTALLY_HOME: folder });
  copyMasterKey(source, home);
  const copy = masterKeyFile(home);
  assert.is(readFileSync(copy, 'utf8'), 'a master key\n');
  assert.is(statSync(copy).mode & 0o777, 0o600);
});

test('where there is data, a missing master key is said to be missing, and no other one is made', () => {
  const home = openHome({ KEYTALLY_HOME: join(folder, 'without key') });
  mkdirSync(join(home.folder, 'postgres/data'), { recursive: true });
  assert.throws(() => masterKeyFile(home), /master\.key is missing, and another key would open nothing/);
  assert.equal(readdirSync(home.folder), ['postgres']);
});

test('a home that is a link is the folder where the link leads, also while there is none', () => {
  const links = mkdtempSync(join(process.env.TEST_FOLDER ?? '', 'links-'));
  symlinkSync('next', join(links, 'home'));
  symlinkSync(join(links, 'folder'), join(links, 'next'));
  const opened = () => openHome({ KEYTALLY_HOME: join(links, 'home') }).folder;
  assert.is(opened(), join(links, 'folder'));
  mkdirSync(join(links, 'folder'));
  assert.is(opened(), join(links, 'folder'));

  symlinkSync('there', join(links, 'here'));
  symlinkSync('here', join(links, 'there'));
  assert.throws(() => openHome({ KEYTALLY_HOME: join(links, 'here') }), /KEYTALLY_HOME leads in a circle of links/);
});

test('without KEYTALLY_PORT a stack keeps the ports of its last start, and a new one has 8080 and 8081', () => {
  const ports = (environment: NodeJS.ProcessEnv) => {
    const { apiPort, verifyPort } = openHome({ KEYTALLY_HOME: folder, ...environment });
    return [apiPort, verifyPort];
  };
  writeEnvFile({ folder }, { KEYTALLY_API_URL: 'http://127.0.0.1:9480', KEYTALLY_VERIFY_URL: 'http://127.0.0.1:9481' });
  assert.equal(ports({}), [9480, 9481]);
  assert.equal(ports({ KEYTALLY_PORT: '' }), [9480, 9481]);
  assert.equal(ports({ KEYTALLY_PORT: '9490' }), [9490, 9491]);
  assert.equal(ports({ KEYTALLY_HOME: join(folder, 'new') }), [8080, 8081]);
});

test('of processes that take a home at the same moment, over the note of one that is gone, one has it until it ends', async () => {
  const homes = Array.from({ length: ROUNDS }, (_, i) => join(folder, `taken-${i}`));
  for (const home of homes) {
    mkdirSync(home);
    writeFileSync(join(home, 'supervisor.json'), JSON.stringify({ pid: 1, startedAt: 'long ago', apiPort: 8080 }));
  }
  // Each tries all homes at agreed moments, and stays.
  const { processes, told } = await atOnce(
    homes,
    `const { takeHome } = await import(process.argv[1] + '/apps/stack/process/home.ts');
     const { identify } = await import(process.argv[1] + '/apps/stack/process/processes.ts');
     globalThis.held = [];
     turn = (folder) => {
       try {
         held.push(takeHome({ folder }, { ...identify(process.pid), apiPort: 8080, checkout: '' }));
         return 'took it';
       } catch (error) {
         if (!/was just taken/.test(error.message)) throw error;
         return 'refused';
       }
     };`,
  );
  for (const [i, home] of homes.entries()) {
    const owners = processes.filter((_, number) => told[number]?.[i] === 'took it');
    assert.is(owners.length, 1, home);
    assert.is(findSupervisor({ folder: home })?.pid, owners[0]?.pid);
  }
  for (const one of processes) await end(one);
  for (const home of homes) takeHome(openHome({ KEYTALLY_HOME: home }), noteOf(process.pid))({ folder: home });
  assert.not.ok(homes.some((home) => existsSync(join(home, 'supervisor.json'))));
});

test('a home that root locked first, of a stack of another user, can be locked by that user', () => {
  if (process.getuid?.() !== 0) {
    console.error("NOT TESTED that root leaves a home's lock to its owner: only root can make files of others");
    return;
  }
  const home = openHome({ KEYTALLY_HOME: join(folder, 'of another user') });
  mkdirSync(home.folder);
  chownSync(home.folder, 65_534, 65_533);
  lockHome(home)(home);
  const { uid, gid, mode } = statSync(join(home.folder, 'lock'));
  assert.equal([uid, gid, mode & 0o777], [65_534, 65_533, 0o600]);
});

test('processes that need a master key at the same moment make one, and all of them get it', async () => {
  const homes = Array.from({ length: ROUNDS }, (_, i) => join(folder, `keyed-${i}`));
  for (const home of homes) mkdirSync(home);
  const { processes, told } = await atOnce(
    homes,
    `const { readFileSync } = await import('node:fs');
     const { masterKeyFile } = await import(process.argv[1] + '/apps/stack/process/home.ts');
     turn = (folder) => readFileSync(masterKeyFile({ folder }), 'utf8');`,
  );
  for (const one of processes) await end(one);
  for (const [i, home] of homes.entries()) {
    const key = readFileSync(masterKeyFile(openHome({ KEYTALLY_HOME: home })), 'utf8');
    assert.match(key, /^[\w+/]{43}=\n$/);
    assert.equal(
      told.map((turns) => turns[i]),
      [key, key, key],
    );
    assert.equal(readdirSync(home), ['master.key']);
  }
});

test.after(() => unmountBelow(process.env.TEST_FOLDER ?? ''));
test('a full disk leaves no part of a master key, which would be taken for one', async () => {
  const home = openHome({ KEYTALLY_HOME: join(process.env.TEST_FOLDER ?? '', 'full') });
  const disk = await mountDisk(home.folder, 1);
  await disk.fill();
  assert.throws(() => masterKeyFile(home), /ENOSPC/);
  assert.equal(readdirSync(home.folder), ['filler']);
  disk.free();
  assert.match(readFileSync(masterKeyFile(home), 'utf8'), /^[\w+/]{43}=\n$/);
});

test.run();

/** Lets three processes take turns at the same moments, one for each folder; gives what each said of its turns. */
async function atOnce(folders: string[], setUp: string): Promise<{ processes: ChildProcess[]; told: string[][] }> {
  const code = `
    let turn;
    ${setUp}
    setInterval(() => {}, 60_000);
    process.send('ready');
    process.once('message', ({ folders, startAt, everyMs }) => {
      const told = folders.map((folder, i) => {
        // A timer would be late by more than the moment that matters.
        while (Date.now() < startAt + i * everyMs);
        return turn(folder);
      });
      process.send(told);
    });`;
  const processes = Array.from({ length: 3 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', code, checkout], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    }),
  );
  await Promise.all(processes.map((one) => once(one, 'message')));
  const answers = processes.map((one) => once(one, 'message') as Promise<[string[]]>);
  for (const one of processes) one.send({ folders, startAt: Date.now() + 100, everyMs: 400 });
  return { processes, told: (await Promise.all(answers)).map(([told]) => told) };
}

async function end(one: ChildProcess): Promise<void> {
  one.kill('SIGKILL');
  await once(one, 'exit');
}

function noteOf(pid: number): SupervisorNote {
  return { ...identify(pid)!, apiPort: 8080, checkout };
}

function isInstalled(shell: string): boolean {
  try {
    execFileSync(shell, ['-c', 'true']);
    return true;
  } catch {
    return false;
  }
}
