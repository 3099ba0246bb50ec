import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { atEnd } from '../../../tests/helpers/at-end.ts';

export type Certificate = { certificate: string; key: string };

export type Got = {
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
  servername: string | false | undefined;
};
export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

/** A certificate that only its own file vouches for, for a public name and this machine. */
export function makeReceiverCertificate(below = process.env.TEST_FOLDER ?? ''): Certificate {
  const folder = join(below, 'receiver');
  mkdirSync(folder, { recursive: true });
  const [certificate, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const names = 'subjectAltName=DNS:hooks.example.com,DNS:localhost,IP:127.0.0.1';
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const args = [
    'req',
    '-x509',
    '-subj',
    '/CN=receiver',
    '-addext',
    names,
    ...kind,
    '-keyout',
    key,
    '-out',
    certificate,
  ];
  execFileSync('openssl', args, { stdio: 'pipe' });
  return { certificate, key };
}

/** A receiver on this machine, over TLS. It keeps what it got; `answer` says what it answers. */
export async function startReceiver(
  { certificate, key }: Certificate,
  answer: (got: Got, response: ServerResponse, count: number) => void = (_, response) => void response.end('thanks'),
) {
  const got: Got[] = [];
  let connections = 0;
  const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { url: path = '', headers } = request;
      const { servername } = request.socket as { servername?: string | false };
      const one = { path, headers, body: Buffer.concat(chunks).toString(), servername };
      got.push(one);
      answer(one, response, got.length);
    });
    request.on('error', () => {});
  });
  server.on('secureConnection', () => void connections++);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    target: `127.0.0.1:${port}`,
    url: `https://127.0.0.1:${port}/in`,
    got,
    connections: () => connections,
    stop: atEnd(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }),
  };
}
