import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { makeCertificate, type Certificate } from '../../../tests/helpers/certificate.ts';
import { listen } from '../../../tests/helpers/listen.ts';

export type Got = {
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
  servername: string | false | undefined;
};
export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

/** A certificate for a public name and this machine. */
export function makeReceiverCertificate(): Certificate {
  return makeCertificate(join(process.env.TEST_FOLDER ?? '', 'receiver'), 'receiver');
}

/** A receiver on this machine, over TLS. It keeps what it got; `answer` says what it answers. */
export async function startReceiver(
  { certificate, key }: Certificate,
  answer: (got: Got, response: ServerResponse, count: number) => void = (_, response) => void response.end('thanks'),
) {
  const got: Got[] = [];
  let connections = 0;
  const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (request, response) => {
    const take = (body: string) => {
      const { url: path = '', headers } = request;
      const { servername } = request.socket as { servername?: string | false };
      const one = { path, headers, body, servername };
      got.push(one);
      answer(one, response, got.length);
    };
    text(request).then(take, () => {});
  });
  server.on('secureConnection', () => void connections++);
  const { port, stop } = await listen(server);
  return {
    port,
    target: `127.0.0.1:${port}`,
    url: `https://127.0.0.1:${port}/in`,
    got,
    connections: () => connections,
    stop,
  };
}
