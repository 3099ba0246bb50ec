// An open-loop client: PER_SECOND requests become due each second, whether answers come or not. Each goes out on a free
// connection; the client opens more as it needs them, up to CONNECTIONS, as gateways do. Prints the answers as JSON, with
// latencies from the time a request was due. Also reads URL, TOKEN, BODY and SECONDS. With PIDS it also tells for how long these
// processes worked between a request and its answer: that part of the latency is theirs, however busy the machine is.
import { openSync, readSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { percentile } from '../apps/stack/demo/print.ts';

const { URL: address = '', TOKEN, BODY = '', PER_SECOND, SECONDS, CONNECTIONS, PIDS = '' } = process.env;
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
type Connection = { socket: Socket; isAsked: boolean; dueAt: number; workedMs: number; rest: string };
type Answer = { ms: number; workedMs: number; inTime: boolean };
const clocks = PIDS.split(',').filter(Boolean).map(openClock);
const answers: Record<string, Answer[]> = {};
const free: Connection[] = [];
let opened = 0;
let opening = 0;

// When the requests became due that wait for a free connection, the oldest first.
const due: number[] = [];
let taken = 0;

const began = performance.now();
let made = 0;
while (performance.now() - began < Number(SECONDS) * 1000) {
  const now = performance.now();
  for (const until = ((now - began) / 1000) * Number(PER_SECOND); made < until; made++) due.push(now);
  while (taken < due.length && free.length > 0) send(free.pop()!);
  while (due.length - taken > opening && opened < Number(CONNECTIONS)) open();
  await new Promise((resolve) => setTimeout(resolve, 1));
}
const until = performance.now() + 2_000;
while (performance.now() < until && free.length < opened) {
  await new Promise((resolve) => setTimeout(resolve, 10));
}
const unanswered = made - Object.values(answers).reduce((sum, all) => sum + all.length, 0);
const byStatus = Object.entries(answers).map(([status, all]) => {
  const sorted = all.map(({ ms }) => ms).toSorted((a, b) => a - b);
  return {
    status: Number(status),
    count: all.length,
    perSecond: all.filter(({ inTime }) => inTime).length / Number(SECONDS),
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    workedP99Ms: clocks.length === 0 ? undefined : percentile(workedOf(all), 0.99),
  };
});
console.log(JSON.stringify({ unanswered, byStatus }));
process.exit();

function send(connection: Connection): void {
  connection.isAsked = true;
  connection.dueAt = due[taken++]!;
  connection.workedMs = workedMs();
  connection.socket.write(request);
}

function open(): void {
  opened++;
  opening++;
  const socket = connect(Number(url.port), url.hostname);
  const connection: Connection = { socket, isAsked: false, dueAt: 0, workedMs: 0, rest: '' };
  socket.setEncoding('latin1').on('data', (text: string) => take(connection, text));
  socket.once('close', () => {
    opened--;
    const at = free.indexOf(connection);
    if (at >= 0) free.splice(at, 1);
  });
  socket.once('connect', () => {
    opening--;
    goOn(connection);
  });
}

function goOn(connection: Connection): void {
  if (taken < due.length) send(connection);
  else free.push(connection);
}

function take(connection: Connection, text: string): void {
  // A server ends a connection on which nobody asked for some seconds, with a 408 that answers nothing.
  if (!connection.isAsked) return void connection.socket.destroy();
  connection.rest += text;
  const head = connection.rest.indexOf('\r\n\r\n');
  if (head < 0) return;
  const length = Number(/content-length: (\d+)/i.exec(connection.rest.slice(0, head))?.[1] ?? 0);
  if (connection.rest.length < head + 4 + length) return;
  const now = performance.now();
  const inTime = now - began < Number(SECONDS) * 1000;
  (answers[connection.rest.slice(9, 12)] ??= []).push({
    ms: now - connection.dueAt,
    workedMs: workedMs() - connection.workedMs,
    inTime,
  });
  connection.rest = '';
  connection.isAsked = false;
  goOn(connection);
}

function workedOf(all: Answer[]): number[] {
  return all.map(({ workedMs }) => workedMs).toSorted((a, b) => a - b);
}

/** How long the processes have worked so far, all together. */
function workedMs(): number {
  return clocks.reduce((sum, clock) => sum + clock(), 0);
}

/** Linux tells how many ns a process's main thread was on a core. */
function openClock(pid: string): () => number {
  const bytes = Buffer.alloc(128);
  const file = openSync(`/proc/${pid}/schedstat`, 'r');
  return () => Number(bytes.toString('latin1', 0, readSync(file, bytes, 0, bytes.length, 0)).split(' ', 1)[0]) / 1e6;
}
