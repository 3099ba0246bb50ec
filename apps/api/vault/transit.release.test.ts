// The master key from Vault's transit engine, by the program that operators name in MASTER_KEY_COMMAND.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { must } from '../../../tests/helpers/customers.ts';
import { outputListeners } from '../../../tests/helpers/start-program.ts';
import { spawnWorld, type Spawned, type ProcessWorld } from '../../../tests/helpers/world.ts';
import { startTransit } from './helpers/transit-server.ts';
import { decryptByTransit } from './transit.ts';

const COMMAND = join(import.meta.dirname, '../commands/vault-key.ts');
let world: ProcessWorld | undefined;
const vault = await startTransit();
test.after(() => vault.stop());

test('an api gets its master key from Vault, also after the key there was rotated, and writes it nowhere', async () => {
  const ciphertext = vault.wrappedKey();
  const { out: key } = await vaultKey({ MASTER_KEY_CIPHERTEXT: ciphertext });
  world = await spawnWorld(['api'], { MASTER_KEY: key });
  const headers = { 'Idempotency-Key': 'kept' };
  const kept = (await must(201, sign(world.api, headers))).body.jwt;

  let written = '';
  const listen = (text: string) => void (written += text);
  outputListeners.add(listen);
  vault.rotate();
  const env = { MASTER_KEY: '', MASTER_KEY_COMMAND: `'${process.execPath}' '${COMMAND}'`, LOG_LEVEL: 'trace' };
  const other = await world.start('api', { ...env, ...settings({ MASTER_KEY_CIPHERTEXT: ciphertext }) });
  assert.is((await must(201, sign(other, headers))).body.jwt, kept, 'what was encrypted under the key opens');
  await other.stop();
  outputListeners.delete(listen);
  assert.ok(written.length > 0);
  for (const secret of [key, vault.decrypter]) assert.not.ok(written.includes(secret));
});

test('each failure exits with 1, prints no key, and says what to change', async () => {
  const good = vault.wrappedKey();
  const closed = await startTransit();
  await closed.stop();
  for (const [given, message] of [
    [{ VAULT_TOKEN: 'hvs.wrong' }, /answered 403 .*permission denied.*policy lacks `path "transit\/decrypt\/keytally"/],
    [
      { VAULT_TOKEN: vault.root, VAULT_TRANSIT_MOUNT: 'kv' },
      /answered 404 .*no handler.*: no transit engine is mounted/,
    ],
    [
      { MASTER_KEY_CIPHERTEXT: 'vault:v1:AAAA' },
      /answered 400 .*MASTER_KEY_CIPHERTEXT was not encrypted under this key/,
    ],
    [{ MASTER_KEY_CIPHERTEXT: vault.wrappedKey(16) }, /holds no key of 32 bytes: make one with `vault write -f/],
    [{ VAULT_ADDR: closed.url }, /does not answer \(ECONNREFUSED\)/],
    [{ VAULT_ADDR: 'vault.internal:8200' }, /VAULT_ADDR must be an address like https:\/\/host:port/],
    [{ VAULT_TOKEN: undefined }, /VAULT_TOKEN must be set/],
    [{ NODE_ENV: 'production', VAULT_ADDR: 'http://10.0.0.9:8200' }, /VAULT_ADDR must be https in production/],
  ] as const) {
    const { code, out, err } = await vaultKey({ MASTER_KEY_CIPHERTEXT: good, ...given });
    assert.equal([code, out], [1, ''], err);
    assert.match(err, message);
    for (const secret of [vault.decrypter, vault.root, good]) assert.not.ok(err.includes(secret), err);
  }
  vault.sealed = true;
  assert.match((await vaultKey({ MASTER_KEY_CIPHERTEXT: good })).err, /answered 503 \(Vault is sealed\)/);
  vault.sealed = false;
});

test('a Vault that does not answer is given up', async () => {
  vault.silent = true;
  const asked = decryptByTransit(
    {
      VAULT_ADDR: vault.url,
      VAULT_NAMESPACE: '',
      VAULT_TOKEN: vault.decrypter,
      VAULT_TRANSIT_MOUNT: 'transit',
      VAULT_TRANSIT_KEY: 'keytally',
      MASTER_KEY_CIPHERTEXT: vault.wrappedKey(),
    },
    200,
  );
  const error = await asked.then(
    () => undefined,
    (thrown: Error) => thrown,
  );
  vault.silent = false;
  assert.match(error?.message ?? '', /did not answer within 0\.2 s$/);
});

function sign(api: Spawned, headers: Record<string, string> = {}) {
  return world!.call('post', `${api.url}/api/v1/jwt`, { payload: {} }, { headers });
}

function settings(given: Record<string, string | undefined>): Record<string, string> {
  const all = { VAULT_ADDR: vault.url, VAULT_TOKEN: vault.decrypter, ...given };
  return Object.fromEntries(Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined));
}

function vaultKey(given: Record<string, string | undefined>): Promise<{ code: number; out: string; err: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [COMMAND], { env: settings(given) }, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, out: out.trim(), err }),
    );
  });
}
