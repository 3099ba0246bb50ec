import { randomUUID } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http';
import { isSelect, type Engine, type Outcome, type Statement } from './engine.ts';
import { RequestError } from './limits.ts';
import { readStatement, waitsForEnd } from './request.ts';
import type { Spool } from './spool.ts';
import { permit, userOf, type Passwords } from './users.ts';

/** What a server answers with, and the passwords of its users. */
type Serving = { engine: Engine; spool: Spool; passwords: Passwords };

/** ClickHouse's HTTP interface in front of the engine, faithful enough for an unchanged `@clickhouse/client`. */
export function makeServer(serving: Serving): Server {
  const { engine } = serving;
  const { addressBytes, headerBytes } = engine.limits;
  const server = createServer({ maxHeaderSize: addressBytes + headerBytes }, (request, response) => {
    answer(serving, request, response).catch((error: unknown) => refuse(response, engine.version, error));
  });
  // A large insert may take long. An idle connection is kept as long as a ClickHouse server keeps it.
  server.requestTimeout = 0;
  server.keepAliveTimeout = 30_000;
  return server;
}

const PART_BYTES = 256 * 1024;

async function answer(serving: Serving, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { engine, spool } = serving;
  if (Buffer.byteLength(request.url ?? '') > engine.limits.addressBytes) return send(response, 400, {}, '');
  const url = new URL(request.url ?? '/', 'http://localhost');
  const refused = whyRefused(request);
  if (refused) return send(response, 403, {}, `${refused}\n`);
  if (url.pathname === '/ping' || url.pathname === '/replicas_status') return send(response, 200, {}, 'Ok.\n');
  if (url.pathname !== '/') return send(response, 404, {}, `There is no handle ${url.pathname}\n`);
  const user = userOf(request.headers.authorization, serving.passwords);

  response.setHeader('X-ClickHouse-Query-Id', url.searchParams.get('query_id') ?? randomUUID());
  const asked = await readStatement(request, url, engine.limits);
  if (!asked) return send(response, 200, {}, 'Ok.\n');
  const statement = permit(user, asked);
  if (waitsForEnd(url) && isSelect(statement)) return sendSpooled(spool, statement, response);
  const outcome = await engine.run(statement);
  send(response, 200, { 'X-ClickHouse-Summary': JSON.stringify(summary(outcome)), ...serverHeaders() }, outcome.bytes);
}

// A page in a browser of this machine reaches the port too: by a form or an image, which sends no Origin, or under a name of its own
// that leads here (DNS rebinding).
function whyRefused({ headers }: IncomingMessage): string | undefined {
  const { origin, host = '', 'sec-fetch-site': site = 'none' } = headers;
  if (origin || site !== 'none') return 'Requests from web pages are not served.';
  if (!/^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/i.test(host)) return 'The Host must be 127.0.0.1 or localhost.';
  return undefined;
}

async function sendSpooled(spool: Spool, statement: Statement, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  if (response.closed) return;
  response.once('close', () => gone.abort());
  const { file, bytes } = await spool.write(statement, gone.signal);
  if (gone.signal.aborted) return file.close();
  // Not after the last write: one to a connection that was lost just before it is never called back.
  response.once('close', () => void file.close());
  response.writeHead(200, {
    'Content-Type': 'text/plain; charset=UTF-8',
    'Content-Length': bytes,
    ...serverHeaders(),
  });
  await sendFile(file, response).catch(() => response.destroy());
}

/** Sends a file no faster than the client reads. One buffer serves all of it: new ones would wait for the collector, many at a time. */
async function sendFile(file: FileHandle, response: ServerResponse): Promise<void> {
  const buffer = Buffer.allocUnsafe(PART_BYTES);
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, PART_BYTES);
    if (bytesRead === 0) break;
    await new Promise<void>((resolve, reject) => {
      response.write(buffer.subarray(0, bytesRead), (error) => (error ? reject(error) : resolve()));
    });
  }
  response.end();
}

function serverHeaders(): OutgoingHttpHeaders {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return { 'X-ClickHouse-Server-Display-Name': 'chdb', 'X-ClickHouse-Timezone': timeZone };
}

function send(response: ServerResponse, status: number, headers: OutgoingHttpHeaders, body: string | Uint8Array) {
  response.writeHead(status, {
    'Content-Type': 'text/plain; charset=UTF-8',
    'Content-Length': Buffer.byteLength(body),
    ...headers,
  });
  response.end(body);
}

function refuse(response: ServerResponse, version: string, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  const known = error instanceof RequestError ? error.code : /^Code: (\d+)\./.exec(message)?.[1];
  const code = Number(known ?? 1001);
  const text = known ? message : `Code: ${code}. DB::Exception: ${message} (STD_EXCEPTION)`;
  if (!known) console.error(error);
  if (response.headersSent) return void response.destroy();
  const headers = { 'X-ClickHouse-Exception-Code': code, Connection: response.req.complete ? 'keep-alive' : 'close' };
  send(response, statusOf(code), headers, `${text} (version ${version} (chdb))\n`);
}

/** The HTTP status that a ClickHouse server gives an error of this number. */
function statusOf(code: number): number {
  if (unreadable.includes(code)) return 400;
  if (unknown.includes(code)) return 404;
  return { 497: 403, 516: 403, 159: 408, 48: 501, 203: 503, 210: 503, 439: 503 }[code] ?? 500;
}

// Could not be read, or is of the wrong type.
const unreadable = [6, 25, 26, 27, 32, 33, 34, 38, 41, 43, 53, 62, 69, 72, 117, 130, 354, 456, 457];
// Names something that is not there.
const unknown = [8, 16, 46, 47, 50, 56, 60, 63, 73, 81, 82, 115, 119, 141];

function summary({ rowsRead, bytesRead, rowsWritten, elapsedSeconds, bytes }: Outcome) {
  return {
    read_rows: String(rowsRead),
    read_bytes: String(bytesRead),
    written_rows: String(rowsWritten),
    written_bytes: String(rowsWritten > 0 ? bytesRead : 0),
    total_rows_to_read: '0',
    result_rows: String(rowsWritten || rowsRead),
    result_bytes: String(bytes.length),
    elapsed_ns: String(Math.round(elapsedSeconds * 1e9)),
  };
}
