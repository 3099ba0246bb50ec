// An open-loop client: sends so many requests a second over so many connections whether answers come or not, and tells
// what came back, as JSON. URL, TOKEN, BODY, PER_SECOND, SECONDS, CONNECTIONS.
import { connect, type Socket } from 'node:net';
import { percentile } from '../demo-print.ts';

const { URL: address = '', TOKEN, BODY = '', PER_SECOND, SECONDS, CONNECTIONS } = process.env;
const url = new URL(address);
const request = Buffer.from(
  [
    `POST ${url.pathname} HTTP/1.1`,
    `Host: ${url.host}`,
    `Authorization: Bearer ${TOKEN}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(BODY)}`,
    '',
    BODY,
  ].join('\r\n'),
);
type Connection = { socket: Socket; sentAt: number[]; rest: string };
const answers: Record<string, number[]> = {};
const connections = await Promise.all(Array.from({ length: Number(CONNECTIONS) }, open));

const began = performance.now();
let sent = 0;
while (performance.now() - began < Number(SECONDS) * 1000) {
  const due = Math.floor(((performance.now() - began) / 1000) * Number(PER_SECOND));
  for (; sent < due; sent++) {
    const connection = connections[sent % connections.length]!;
    connection.sentAt.push(performance.now());
    connection.socket.write(request);
  }
  await new Promise((resolve) => setTimeout(resolve, 1));
}
const until = performance.now() + 2_000;
while (performance.now() < until && connections.some(({ sentAt }) => sentAt.length > 0)) {
  await new Promise((resolve) => setTimeout(resolve, 10));
}
const unanswered = connections.reduce((sum, { sentAt }) => sum + sentAt.length, 0);
const byStatus = Object.entries(answers).map(([status, ms]) => {
  const sorted = ms.toSorted((a, b) => a - b);
  return {
    status: Number(status),
    perSecond: ms.length / Number(SECONDS),
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
  };
});
console.log(JSON.stringify({ unanswered, byStatus }));
process.exit();

function open(): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(url.port), url.hostname);
    const connection: Connection = { socket, sentAt: [], rest: '' };
    socket.setEncoding('latin1').on('data', (text: string) => take(connection, text));
    socket.once('connect', () => resolve(connection)).once('error', reject);
  });
}

// Answers come in the order of the requests; each says how long its body is.
function take(connection: Connection, text: string): void {
  connection.rest += text;
  for (;;) {
    const head = connection.rest.indexOf('\r\n\r\n');
    if (head < 0) return;
    const length = Number(/content-length: (\d+)/i.exec(connection.rest.slice(0, head))?.[1] ?? 0);
    if (connection.rest.length < head + 4 + length) return;
    const status = connection.rest.slice(9, 12);
    (answers[status] ??= []).push(performance.now() - connection.sentAt.shift()!);
    connection.rest = connection.rest.slice(head + 4 + length);
  }
}
