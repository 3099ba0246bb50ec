import type { IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import type { Statement } from './engine.ts';
import { Refusal } from './refusal.ts';

// http_max_field_value_size: a program that sends more to a ClickHouse server is refused.
const MOST_OF_A_VALUE = 131_072;

/**
 * Reads a statement as ClickHouse's HTTP interface does. Its text is in `query`, in the body, or begins in `query` and goes
 * on in the body. `param_name` is a value of `{name:Type}`; every other parameter is a setting.
 */
export async function readStatement(request: IncomingMessage, url: URL): Promise<Statement | undefined> {
  const { 'content-type': contentType = '' } = request.headers;
  const given = new URLSearchParams(url.search);
  let body = await buffer(request);
  if (contentType.startsWith('multipart/form-data')) {
    const form = await new Response(new Uint8Array(body), { headers: { 'content-type': contentType } }).formData();
    for (const [name, value] of form) given.append(name, typeof value === 'string' ? value : await value.text());
    body = Buffer.alloc(0);
  }

  const inUrl = given.get('query')?.trim();
  const sql = inUrl || body.toString();
  if (!sql.trim()) return undefined;
  refuseSeveral(sql);

  const settings: Record<string, string> = {};
  const parameters: Record<string, string> = {};
  for (const [name, value] of given) {
    if (Buffer.byteLength(value) > MOST_OF_A_VALUE && name !== 'query')
      throw new Refusal(1000, 'POCO_EXCEPTION', 'HTML Form Exception: Field value too long');
    if (name.startsWith('param_')) parameters[name.slice('param_'.length)] = value;
    else if (!notSettings.has(name)) settings[name] = value;
  }
  // As in the server: proxies may repeat a GET, so it must not write.
  if (request.method !== 'POST') settings.readonly = settings.readonly === '1' ? '1' : '2';

  return {
    sql,
    data: inUrl && (body.length > 0 || /^\s*insert\b/i.test(inUrl)) ? body : undefined,
    database: given.get('database') ?? undefined,
    format: given.get('default_format') ?? 'TabSeparated',
    settings,
    parameters,
  };
}

// Parameters of the HTTP interface itself, not settings of the engine.
const notSettings = new Set(
  (
    'query query_id database default_format user password role quota_key session_timeout session_check ' +
    'wait_end_of_query buffer_size compress decompress enable_http_compression'
  ).split(' '),
);

// The engine would run several statements, but a ClickHouse server refuses them, so they are refused here too.
function refuseSeveral(sql: string): void {
  if (/^\s*insert\b.*\bformat\b/is.test(sql)) return;
  const bare = sql.replace(/'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|--[^\n]*|\/\*.*?\*\//gs, (part) =>
    /^['"`]/.test(part) ? 'x' : ' ',
  );
  if (/;\s*[^\s;]/.test(bare)) throw new Refusal(62, 'SYNTAX_ERROR', 'Syntax error (Multi-statements are not allowed)');
}
