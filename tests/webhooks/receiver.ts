// A receiver of webhooks as a process of its own: node tests/webhooks/receiver.ts, with its settings in the environment.
import { appendFileSync, readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';

/** What it writes about each request before it answers: a line of JSON. */
export type Received = { id: string; type: string; cause: string; status: number; at: number; isSigned: boolean };

const { RECEIVER_PORT, RECEIVER_CERTIFICATE, RECEIVER_KEY, RECEIVER_SECRET, RECEIVER_LOG, RECEIVER_FAILS } =
  process.env as Record<string, string>;
const webhook = new Webhook(RECEIVER_SECRET!);
const fails = RECEIVER_FAILS === 'half';
// Of a hundred requests: how many take so long, in ms. Some take longer than what counts as slow.
const SLOW = [
  { of100: 2, ms: 2_500 },
  { of100: 12, ms: 300 },
];

const certificate = { cert: readFileSync(RECEIVER_CERTIFICATE!), key: readFileSync(RECEIVER_KEY!) };
createServer(certificate, (request, response) => {
  buffer(request)
    .then((body) => receive(body.toString(), request.headers as Record<string, string>, response))
    .catch(() => response.destroy());
}).listen(Number(RECEIVER_PORT), '127.0.0.1', () => console.log('listens'));

function receive(body: string, headers: Record<string, string>, response: ServerResponse): void {
  const at = Date.now();
  const { type, data } = JSON.parse(body) as { type: string; data: { apiKeyId: string; eventId?: string } };
  const lot = Math.random() * 100;
  const status = fails && Math.random() < 0.5 ? 500 : 204;
  const line: Received = {
    id: headers['webhook-id']!,
    type,
    cause: data.eventId ?? data.apiKeyId,
    status,
    at,
    isSigned: isSigned(body, headers),
  };
  appendFileSync(RECEIVER_LOG!, `${JSON.stringify(line)}\n`);
  const answer = () => {
    // A third of the failures has no answer at all.
    if (status !== 204 && Math.random() < 0.33) response.destroy();
    else response.writeHead(status).end();
  };
  const pause = fails ? SLOW.find(({ of100 }) => lot < of100) : undefined;
  if (pause) setTimeout(answer, pause.ms);
  else answer();
}

function isSigned(body: string, headers: Record<string, string>): boolean {
  try {
    webhook.verify(body, headers);
    return true;
  } catch {
    return false;
  }
}
