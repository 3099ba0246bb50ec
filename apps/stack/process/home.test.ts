import { execFileSync } from 'node:child_process';
import {
  chmodSync,
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
import { copyMasterKey, masterKeyFile, openHome, readEnvFile, writeEnvFile } from './home.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'a home');
const DATABASE_URL = 'postgres://127.0.0.1/keytally';
const values = { KEYTALLY_TOKEN: "it's a $token", DATABASE_URL };

test.before(() => void mkdirSync(folder, { recursive: true }));

for (const shell of ['sh', 'bash'])
  test(`after ${shell} reads the env file, its child processes have the token and no DATABASE_URL`, () => {
    writeEnvFile({ folder }, values);
    const script = `. "$FOLDER/env"; printenv KEYTALLY_TOKEN; printenv DATABASE_URL; printf '%s' "$DATABASE_URL"`;
    const env = { PATH: process.env.PATH, FOLDER: folder };
    const out = execFileSync(shell, ['-c', script], { encoding: 'utf8', env });
    assert.is(out, `${values.KEYTALLY_TOKEN}\n${DATABASE_URL}`);
  });

test('the env file is read back as it was written', () => {
  writeEnvFile({ folder }, values);
  assert.equal(readEnvFile({ folder }), values);
});

test('a master key that was copied into a home is for its owner alone, however open its source is', () => {
  const source = join(folder, 'secret_of_compose');
  writeFileSync(source, 'a master key\n');
  chmodSync(source, 0o644);
  const home = openHome({ KEYTALLY_HOME: folder });
  copyMasterKey(source, home);
  const copy = masterKeyFile(home);
  assert.equal([readFileSync(copy, 'utf8'), statSync(copy).mode & 0o777], ['a master key\n', 0o600]);
});

test('where there is data, a missing master key is said to be missing, and no other one is made', () => {
  const home = openHome({ KEYTALLY_HOME: join(folder, 'without key') });
  mkdirSync(join(home.folder, 'postgres/data'), { recursive: true });
  assert.throws(() => masterKeyFile(home), /master\.key is missing, and another key would open nothing/);
  assert.equal(readdirSync(home.folder), ['postgres']);
});

test('a home that is a link is the folder where the link leads, also while there is none', () => {
  const links = mkdtempSync(join(process.env.TEST_FOLDER ?? '', 'links-'));
  const opened = (name: string) => openHome({ KEYTALLY_HOME: join(links, name) }).folder;
  symlinkSync('folder', join(links, 'home'));
  assert.is(opened('home'), join(links, 'folder'));
  mkdirSync(join(links, 'folder'));
  assert.is(opened('home'), join(links, 'folder'));
});

test('without KEYTALLY_PORT a stack keeps the ports of its last start, and a new one has 8080 and 8081', () => {
  writeEnvFile({ folder }, { KEYTALLY_API_URL: 'http://127.0.0.1:9480', KEYTALLY_VERIFY_URL: 'http://127.0.0.1:9481' });
  for (const [environment, expected] of [
    [{}, [9480, 9481]],
    [{ KEYTALLY_PORT: '' }, [9480, 9481]],
    [{ KEYTALLY_PORT: '9490' }, [9490, 9491]],
    [{ KEYTALLY_HOME: join(folder, 'new') }, [8080, 8081]],
  ] as const) {
    const { apiPort, verifyPort } = openHome({ KEYTALLY_HOME: folder, ...environment });
    assert.equal([apiPort, verifyPort], expected);
  }
});
