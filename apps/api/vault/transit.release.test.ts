// The master key from Vault's transit engine, by the program that operators name in MASTER_KEY_COMMAND.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { listen } from '../../../tests/helpers/listen.ts';
import { decryptByTransit } from './transit.ts';

const COMMAND = join(import.meta.dirname, '../commands/vault-key.ts');
const PATH = '/v1/transit/decrypt/keytally';
const ROOT = 'hvs.root';
const DECRYPTER = 'hvs.decrypter';

// Stands in for Vault, which can't be had from a package registry: the transit engine's decrypt over HTTP, with Vault's own answers.
const wrapped = new Map<string, string>();
let state: 'open' | 'sealed' | 'silent' = 'open';
const vault = createServer((request, response) => {
  if (state === 'silent') return;
  void answer(request).then(([status, body]) => response.writeHead(status).end(JSON.stringify(body)));
});
const { url: VAULT_ADDR } = await listen(vault);

async function answer(request: IncomingMessage): Promise<[status: number, body: object]> {
  const { ciphertext } = (await json(request)) as { ciphertext: string };
  const token = request.headers['x-vault-token'];
  const plaintext = wrapped.get(ciphertext);
  if (state === 'sealed') return [503, { errors: ['Vault is sealed'] }];
  if (token !== ROOT && (token !== DECRYPTER || request.url !== PATH))
    return [403, { errors: ['1 error occurred:\n\t* permission denied\n\n'] }];
  if (request.url !== PATH) return [404, { errors: [`no handler for route "${request.url}". route entry not found.`] }];
  if (plaintext === undefined) return [400, { errors: ['cipher: message authentication failed'] }];
  return [200, { request_id: 'x', lease_id: '', data: { plaintext } }];
}

/** As `vault write -f -field=ciphertext transit/datakey/wrapped/NAME` prints one; `bytes` makes a wrong one. */
function wrappedKey(bytes = 32): string {
  const ciphertext = `vault:v1:${randomBytes(60).toString('base64')}`;
  wrapped.set(ciphertext, randomBytes(bytes).toString('base64'));
  return ciphertext;
}

test('the command prints the master key that Vault decrypts, and nothing else', async () => {
  const ciphertext = wrappedKey();
  const printed = { code: 0, out: wrapped.get(ciphertext), err: '' };
  assert.equal(await vaultKey({ MASTER_KEY_CIPHERTEXT: ciphertext }), printed);
});

test('each failure exits with 1, prints no key, and says what to change', async () => {
  const good = wrappedKey();
  for (const [given, message] of [
    [{ VAULT_TOKEN: 'hvs.wrong' }, /answered 403 .*permission denied.*policy lacks `path "transit\/decrypt\/keytally"/],
    [{ VAULT_TOKEN: ROOT, VAULT_TRANSIT_MOUNT: 'kv' }, /answered 404 .*no handler.*: no transit engine is mounted/],
    [
      { MASTER_KEY_CIPHERTEXT: 'vault:v1:AAAA' },
      /answered 400 .*MASTER_KEY_CIPHERTEXT was not encrypted under this key/,
    ],
    [{ MASTER_KEY_CIPHERTEXT: wrappedKey(16) }, /holds no key of 32 bytes: make one with `vault write -f/],
    [{ VAULT_ADDR: 'http://127.0.0.1:65535' }, /does not answer \(ECONNREFUSED\)/],
    [{ VAULT_ADDR: 'vault.internal:8200' }, /VAULT_ADDR must be an address like https:\/\/host:port/],
    [{ VAULT_TOKEN: undefined }, /VAULT_TOKEN must be set/],
    [{ NODE_ENV: 'production', VAULT_ADDR: 'http://10.0.0.9:8200' }, /VAULT_ADDR must be https in production/],
  ] as const) {
    const { code, out, err } = await vaultKey({ MASTER_KEY_CIPHERTEXT: good, ...given });
    assert.equal([code, out], [1, ''], err);
    assert.match(err, message);
    for (const secret of [DECRYPTER, ROOT, good]) assert.not.ok(err.includes(secret), err);
  }
  state = 'sealed';
  assert.match((await vaultKey({ MASTER_KEY_CIPHERTEXT: good })).err, /answered 503 \(Vault is sealed\)/);
  state = 'silent';
  const transit = { VAULT_ADDR, VAULT_NAMESPACE: '', VAULT_TOKEN: DECRYPTER, VAULT_TRANSIT_MOUNT: 'transit' };
  const asked = { ...transit, VAULT_TRANSIT_KEY: 'keytally', MASTER_KEY_CIPHERTEXT: good };
  const late = await decryptByTransit(asked, 200).catch((error: Error) => error.message);
  assert.match(late, /did not answer within 0\.2 s$/);
});

function vaultKey(given: Record<string, string | undefined>): Promise<{ code: number; out: string; err: string }> {
  const env = { VAULT_ADDR, VAULT_TOKEN: DECRYPTER, ...given };
  return new Promise((resolve) => {
    execFile(process.execPath, [COMMAND], { env }, (error, out, err) =>
      resolve({ code: error ? Number(error.code) : 0, out: out.trim(), err }),
    );
  });
}
