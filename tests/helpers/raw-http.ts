import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { envelopeProblem } from './contract.ts';

/** What came back over a connection: its answers in order, and whether the server kept the connection open. */
export type RawAnswer = { status: number; headers: Map<string, string>; text: string };
export type Spoken = { answers: RawAnswer[]; open: boolean };

type Options = {
  /** How many answers to wait for; default 1. */
  answers?: number;
  /** Ends our half of the connection after sending. */
  halfClose?: boolean;
  /** Pause between two parts. */
  pauseMs?: number;
  /** The request is HEAD: its answer has the length of a body but no body. */
  head?: boolean;
};

const WITHIN_MS = 30_000;

/**
 * Sends bytes to a server part by part, which no HTTP client would send like that, and gives the answers. Ends when the
 * answers are there, when the server closes, or after a time limit. An error must come in the envelope.
 */
export async function speak(url: string, parts: (string | Buffer)[], options: Options = {}): Promise<Spoken> {
  const { answers = 1, halfClose = false, pauseMs = 0, head = false } = options;
  const { hostname, port } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  let received = Buffer.alloc(0);
  let open = true;
  const done = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, WITHIN_MS);
    const end = () => {
      open = false;
      clearTimeout(timer);
      resolve();
    };
    socket.on('end', end).on('close', end).on('error', end);
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      if (split(received, head).length < answers) return;
      clearTimeout(timer);
      resolve();
    });
  });
  for (const part of parts) {
    if (!open) break;
    socket.write(part);
    if (pauseMs > 0) await sleep(pauseMs);
  }
  if (halfClose) socket.end();
  await done;
  socket.destroy();
  const complete = split(received, head);
  for (const answer of complete) {
    const problem = answer.status < 400 || head ? undefined : envelopeProblem(answer);
    if (problem) throw new Error(`${answer.status} ${answer.text}: ${problem}`);
  }
  return { answers: complete, open };
}

// Splits the received bytes into whole answers.
function split(received: Buffer, headOnly: boolean): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let at = 0;
  for (;;) {
    const head = received.indexOf('\r\n\r\n', at);
    const [first = '', ...lines] = received.toString('latin1', at, Math.max(at, head)).split('\r\n');
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1]);
    if (head < 0 || !status) return answers;
    const headers = new Map(lines.map((line) => [line.split(':', 1)[0]!.toLowerCase(), line.replace(/^[^:]*: */, '')]));
    // A 304 may tell the length of what it does not send (RFC 9110, 8.6).
    const hasBody = !headOnly && status !== 304;
    const end = head + 4 + (hasBody ? Number(headers.get('content-length') ?? 0) : 0);
    if (received.length < end) return answers;
    if (status >= 200) answers.push({ status, headers, text: received.toString('utf8', head + 4, end) });
    at = end;
  }
}

/** Sends a request, or a part of one, and gives everything that is answered until the server closes. */
export async function answerTo(client: Socket, part: string): Promise<string> {
  let text = '';
  client.setEncoding('latin1').on('data', (received: string) => (text += received));
  client.write(part);
  await once(client, 'close');
  return text;
}
