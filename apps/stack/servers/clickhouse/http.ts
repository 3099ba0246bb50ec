import { randomUUID } from 'node:crypto';
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http';
import { pipeline } from 'node:stream/promises';
import { isSelect, type Engine, type Statement } from './engine.ts';
import { Refusal } from './refusal.ts';
import { readStatement } from './request.ts';
import { spool } from './spool.ts';
import { permit, userOf, type Passwords } from './users.ts';

type Serving = { engine: Engine; folder: string; passwords: Passwords };

/** ClickHouse's HTTP interface in front of the engine, faithful enough for an unchanged `@clickhouse/client`. */
export function makeServer(serving: Serving): Server {
  const { engine } = serving;
  const server = createServer({ maxHeaderSize: HEADER_BYTES }, (request, response) => {
    answer(serving, request, response).catch((error: unknown) => refuse(response, engine.version, error));
  });
  // A large insert may take long. An idle connection is kept as long as a ClickHouse server keeps it.
  server.requestTimeout = 0;
  server.keepAliveTimeout = 30_000;
  return server;
}

// A ClickHouse server takes as much of an address (http_max_uri_size).
const HEADER_BYTES = 1024 * 1024;

async function answer(serving: Serving, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { engine, folder } = serving;
  const url = new URL(request.url ?? '/', 'http://localhost');
  const refused = whyRefused(request);
  if (refused) return send(response, 403, {}, `${refused}\n`);
  if (url.pathname === '/ping') return send(response, 200, {}, 'Ok.\n');
  if (url.pathname !== '/') return send(response, 404, {}, `There is no handle ${url.pathname}\n`);
  const user = userOf(request.headers.authorization, serving.passwords);

  response.setHeader('X-ClickHouse-Query-Id', url.searchParams.get('query_id') ?? randomUUID());
  const asked = await readStatement(request, url);
  if (!asked) return send(response, 200, {}, 'Ok.\n');
  const statement = permit(user, asked);
  // Every answer is complete before its first byte is sent. One that is asked for so must take no memory either.
  const waitsForEnd = url.searchParams.get('wait_end_of_query') === '1';
  if (waitsForEnd && isSelect(statement)) return sendSpooled(engine, folder, statement, response);
  send(response, 200, {}, await engine.run(statement));
}

// A page in a browser of this machine reaches the port too: by a form or an image, which sends no Origin, or under a name of its own
// that leads here (DNS rebinding).
function whyRefused({ headers }: IncomingMessage): string | undefined {
  const { origin, host = '', 'sec-fetch-site': site = 'none' } = headers;
  if (origin || site !== 'none') return 'Requests from web pages are not served.';
  if (!/^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?$/i.test(host)) return 'The Host must be 127.0.0.1 or localhost.';
  return undefined;
}

async function sendSpooled(engine: Engine, folder: string, statement: Statement, response: ServerResponse) {
  const gone = new AbortController();
  if (response.closed) return;
  response.once('close', () => gone.abort());
  const { file, bytes } = await spool(engine, folder, statement, gone.signal);
  response.writeHead(200, { 'Content-Type': 'text/plain; charset=UTF-8', 'Content-Length': bytes });
  // No faster than the client reads. It closes the file, also where the client has left.
  await pipeline(file.createReadStream(), response).catch(() => {});
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
  const known = error instanceof Refusal ? error.code : /^Code: (\d+)\./.exec(message)?.[1];
  const code = Number(known ?? 1001);
  const text = known ? message : `Code: ${code}. DB::Exception: ${message} (STD_EXCEPTION)`;
  if (!known) console.error(error);
  if (response.headersSent) return void response.destroy();
  const headers = { 'X-ClickHouse-Exception-Code': code, Connection: response.req.complete ? 'keep-alive' : 'close' };
  send(response, [497, 516].includes(code) ? 403 : 500, headers, `${text} (version ${version} (chdb))\n`);
}
