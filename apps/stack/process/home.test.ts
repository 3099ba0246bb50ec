import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { copyMasterKey, envFile, masterKeyFile, openHome, readEnvFile, writeEnvFile } from './home.ts';

const folder = join(process.env.TEST_FOLDER ?? '', 'a home');
const token = "it's a $token";

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

test.run();

function isInstalled(shell: string): boolean {
  try {
    execFileSync(shell, ['-c', 'true']);
    return true;
  } catch {
    return false;
  }
}
