import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

type Answer = { status: number; body: unknown };

/**
 * Stands in for Vault, which can't be had from a package registry: the transit engine's decrypt, rotate and
 * datakey/wrapped over HTTP, with tokens, versions of a key (AES-256-GCM), a namespace, sealing, and Vault's own answers.
 */
export async function startTransit({ namespace = '', mount = 'transit', name = 'keytally' } = {}) {
  const versions = [randomBytes(32)];
  const root = `hvs.${randomBytes(18).toString('base64url')}`;
  const decrypter = `hvs.${randomBytes(18).toString('base64url')}`;
  const transit = { url: '', root, decrypter, sealed: false, silent: false, asked: 0, rotate, wrappedKey, stop };
  const server = createServer((request, response) => {
    transit.asked += 1;
    if (transit.silent) return;
    void answer(request).then(
      ({ status, body }) => send(response, status, body),
      () => send(response, 400, { errors: ['error parsing JSON'] }),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  transit.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return transit;

  async function answer(request: IncomingMessage): Promise<Answer> {
    if (transit.sealed) return { status: 503, body: { errors: ['Vault is sealed'] } };
    const given = (await json(request)) as { ciphertext?: string };
    if ((request.headers['x-vault-namespace'] ?? '') !== namespace) return notMounted(request.url ?? '');
    const token = request.headers['x-vault-token'];
    const path = `/v1/${mount}/decrypt/${name}`;
    if (token !== root && (token !== decrypter || request.url !== path))
      return { status: 403, body: { errors: ['1 error occurred:\n\t* permission denied\n\n'] } };
    if (request.url !== path) return notMounted(request.url ?? '');
    const plaintext = decrypt(given.ciphertext ?? '');
    if (plaintext === undefined) return { status: 400, body: { errors: ['cipher: message authentication failed'] } };
    return { status: 200, body: { request_id: 'x', lease_id: '', data: { plaintext: plaintext.toString('base64') } } };
  }

  function rotate(): void {
    versions.push(randomBytes(32));
  }

  /** What `vault write -f -field=ciphertext transit/datakey/wrapped/NAME` prints; `bytes` makes a wrong one. */
  function wrappedKey(bytes = 32): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', versions.at(-1)!, nonce);
    const sealed = Buffer.concat([nonce, cipher.update(randomBytes(bytes)), cipher.final(), cipher.getAuthTag()]);
    return `vault:v${versions.length}:${sealed.toString('base64')}`;
  }

  function decrypt(ciphertext: string): Buffer | undefined {
    const [, version, text = ''] = /^vault:v(\d+):(.+)$/.exec(ciphertext) ?? [];
    const key = versions[Number(version) - 1];
    const sealed = Buffer.from(text, 'base64');
    if (!key || sealed.length < 28) return undefined;
    const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12)).setAuthTag(sealed.subarray(-16));
    try {
      return Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()]);
    } catch {
      return undefined;
    }
  }

  async function stop(): Promise<void> {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  }
}

function notMounted(url: string): Answer {
  return {
    status: 404,
    body: { errors: [`no handler for route "${url.slice('/v1/'.length)}". route entry not found.`] },
  };
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}
