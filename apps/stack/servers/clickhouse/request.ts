import type { IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, zstdDecompress } from 'node:zlib';
import type { Statement } from './engine.ts';
import { limitAddress, limitFields, RequestError, type Limits } from './limits.ts';

/**
 * Reads a statement as ClickHouse's HTTP interface does. Its text is in `query`, in the body, or begins in `query` and goes
 * on in the body. `param_name` is a value of `{name:Type}`; every other parameter is a setting.
 */
export async function readStatement(
  request: IncomingMessage,
  url: URL,
  limits: Limits,
): Promise<Statement | undefined> {
  limitAddress(limits, url.search);
  const given = new URLSearchParams(url.search);
  let body = await unpack(await buffer(request), request.headers['content-encoding']);
  const contentType = request.headers['content-type'] ?? '';
  if (contentType.startsWith('multipart/form-data')) {
    const form = await new Response(new Uint8Array(body), { headers: { 'content-type': contentType } }).formData();
    const parts: [string, string][] = [];
    for (const [name, value] of form) parts.push([name, typeof value === 'string' ? value : await value.text()]);
    limitFields(limits, parts);
    for (const [name, value] of parts) given.append(name, value);
    body = Buffer.alloc(0);
  }

  const inUrl = given.get('query')?.trim();
  const sql = inUrl || body.toString();
  if (!sql.trim()) return undefined;
  refuseSeveral(sql);
  if (given.has('session_id')) throw notImplemented('session_id');
  if (given.get('decompress') === '1') throw notImplemented("decompress=1 (ClickHouse's own compression)");

  const settings: Record<string, string> = {};
  const parameters: Record<string, string> = {};
  for (const [name, value] of given) {
    if (name.startsWith('param_')) parameters[name.slice('param_'.length)] = value;
    else if (!notSettings.has(name)) settings[name] = value;
  }
  // As in the server: proxies may repeat a GET, so it must not write.
  if (request.method !== 'POST') settings.readonly = settings.readonly === '1' ? '1' : '2';

  const header = (name: string) => [request.headers[name]].flat()[0];
  return {
    sql,
    data: inUrl && (body.length > 0 || /^\s*insert\b/i.test(inUrl)) ? body : undefined,
    database: given.get('database') ?? header('x-clickhouse-database'),
    format: given.get('default_format') ?? header('x-clickhouse-format') ?? 'TabSeparated',
    settings,
    parameters,
  };
}

/** Whether the answer is to be complete before its first byte is sent. It always is; then it must take no memory either. */
export function waitsForEnd(url: URL): boolean {
  return url.searchParams.get('wait_end_of_query') === '1';
}

// Parameters of the HTTP interface itself, not settings of the engine.
const notSettings = new Set(
  (
    'query query_id database default_format user password role quota_key session_timeout session_check ' +
    'wait_end_of_query buffer_size compress decompress enable_http_compression'
  ).split(' '),
);

function notImplemented(what: string): RequestError {
  return exception(48, 'NOT_IMPLEMENTED', `${what} is not supported here`);
}

function exception(code: number, type: string, message: string): RequestError {
  return new RequestError(code, `Code: ${code}. DB::Exception: ${message} (${type})`);
}

async function unpack(body: Buffer, encoding: string | undefined): Promise<Buffer> {
  const decompress = decompressors[encoding ?? 'identity'];
  if (!decompress) throw exception(48, 'NOT_IMPLEMENTED', `Unknown content encoding ${encoding}`);
  try {
    return await decompress(body);
  } catch (error) {
    throw exception(354, 'ZLIB_INFLATE_FAILED', `Cannot decompress the body: ${(error as Error).message}`);
  }
}

const decompressors: Record<string, (body: Buffer) => Promise<Buffer> | Buffer> = {
  identity: (body) => body,
  gzip: promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
};

// The engine would run several statements, but a ClickHouse server refuses them, so they are refused here too.
function refuseSeveral(sql: string): void {
  if (/^\s*insert\b.*\bformat\b/is.test(sql)) return;
  const bare = sql.replace(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|--[^\n]*|\/\*.*?\*\//gs, (part) =>
    /^['"`]/.test(part) ? 'x' : ' ',
  );
  if (/;\s*[^\s;]/.test(bare)) {
    throw exception(62, 'SYNTAX_ERROR', 'Syntax error (Multi-statements are not allowed)');
  }
}
