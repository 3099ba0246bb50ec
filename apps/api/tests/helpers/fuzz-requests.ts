import * as fc from 'fast-check';
import { oddTexts, spoilt, valuesOf, type Pool, type Schema } from './fuzz-values.ts';

/** What the OpenAPI document says of one operation. */
export type Described = {
  method: string;
  path: string;
  parameters: { name: string; in: string; required: boolean; schema: Schema }[];
  body: Schema | undefined;
};

/** A request as it goes over the wire; `body` undefined sends none. */
export type FuzzRequest = {
  method: string;
  target: string;
  headers: [name: string, value: string][];
  body: Buffer | undefined;
  /** The value sent as the JSON body, if the body is JSON. */
  json: unknown;
};

/** The part of an OpenAPI document that is read here. */
export type OpenApi = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};
type Operation = {
  parameters?: Described['parameters'];
  requestBody?: { content: { 'application/json': { schema: Schema } } };
};

/** The operations of an OpenAPI document. */
export function operationsOf(document: OpenApi): Described[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody }]) => {
      return {
        method,
        path,
        parameters,
        body: whole(requestBody?.content['application/json'].schema, document.components.schemas),
      };
    }),
  );
}

// A schema with what its references name in their place.
function whole(schema: Schema | undefined, named: Record<string, Schema>): Schema | undefined {
  const text = JSON.stringify(schema, (_, value: { $ref?: string } | null) => {
    const name = value?.$ref?.split('/').at(-1);
    return name === undefined ? value : whole(named[name], named);
  });
  return text === undefined ? undefined : (JSON.parse(text) as Schema);
}

/** Requests of an operation: valid, nearly valid and hostile ones. */
export function requestsOf(operation: Described, pool: Pool, tokens: string[]): fc.Arbitrary<FuzzRequest> {
  const { method, path, body } = operation;
  const places = (place: string) => operation.parameters.filter((parameter) => parameter.in === place);
  const params = fc.tuple(
    ...places('path').map(({ name, schema }) =>
      usually(valuesOf(schema, pool, poolOf(path, name)).map(String), oddTexts),
    ),
  );
  const query = fc.tuple(...places('query').map(queryPart(pool)));
  const json = body ? usually(valuesOf(body, pool), valuesOf(body, pool).chain(spoilt)) : fc.constant(undefined);
  return fc
    .record({
      method: seldom(fc.constant(method.toUpperCase()), otherMethods),
      params,
      query,
      extraQuery: seldom(fc.constant(''), oddQueries),
      suffix: seldom(fc.constant(''), fc.constantFrom('/', '/x', '//', '%00', '/..', ';a=b', '#x', '\\', '.json')),
      json,
      encode: seldom(fc.constant(plainBody), bodyEncodings),
      headers: seldom(fc.constant<[string, string][]>([]), fc.array(oddHeaders, { minLength: 1, maxLength: 3 })),
      token: fc.oneof({ arbitrary: fc.constant(tokens[0]!), weight: 12 }, fc.constantFrom(...tokens, '')),
    })
    .map(({ method, params, query, extraQuery, suffix, json, encode, headers, token }) => {
      const names = places('path').map(({ name }) => name);
      const filled = names.reduce((filled, name, i) => filled.replace(`{${name}}`, percent(params[i]!)), path);
      const search = [...query.filter(Boolean), ...(extraQuery ? [extraQuery] : [])].join('&');
      const bytes = json === undefined ? undefined : encode(JSON.stringify(json));
      return {
        method,
        target: filled + suffix + (search && `?${search}`),
        headers: [
          ...(token ? [['Authorization', `Bearer ${token}`] as [string, string]] : []),
          ...(bytes ? [['Content-Type', 'application/json'] as [string, string]] : []),
          ...headers,
        ],
        body: bytes,
        json: encode === plainBody ? json : undefined,
      };
    });
}

// `id` in a path is that of a workspace or of an access token.
function poolOf(path: string, name: string): string {
  return name !== 'id' ? name : path.includes('/access-token/') ? 'tokenId' : 'workspaceId';
}

/** The bytes of a request, with the length of its body. */
export function bytesOf({ method, target, headers, body }: FuzzRequest): Buffer {
  const lines = [`${method} ${target} HTTP/1.1`, 'Host: fuzz', ...headers.map(([name, value]) => `${name}: ${value}`)];
  if (body) lines.push(`Content-Length: ${body.length}`);
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'utf8'), body ?? Buffer.alloc(0)]);
}

const usually = <T>(good: fc.Arbitrary<T>, odd: fc.Arbitrary<T>) =>
  fc.oneof({ arbitrary: good, weight: 3 }, { arbitrary: odd, weight: 1 });
const seldom = <T>(good: fc.Arbitrary<T>, odd: fc.Arbitrary<T>) =>
  fc.oneof({ arbitrary: good, weight: 14 }, { arbitrary: odd, weight: 1 });

function queryPart(pool: Pool) {
  return ({ name, required, schema }: Described['parameters'][number]): fc.Arbitrary<string> => {
    const value = usually(valuesOf(schema, pool, name).map(String), oddTexts).map((text) => `${name}=${percent(text)}`);
    return required ? usually(value, fc.constant('')) : fc.oneof(fc.constant(''), value);
  };
}

// A lone surrogate has no percent-encoding.
function percent(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

const otherMethods = fc.constantFrom(
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
  'TRACE',
  'QUERY',
  'PURGE',
);
const oddQueries = fc.oneof(
  fc.constantFrom('a=1', 'limit=1&limit=2', '%zz=%', '=', '&&&', 'limit', 'limit=', '[]=1', 'a[b]=1', '__proto__=1'),
  fc.constantFrom(
    'limit=1e3',
    'limit=0x1',
    'limit=%20 1'.replace(' ', ''),
    'cursor=%00',
    `cursor=${'A'.repeat(9_000)}`,
  ),
  oddTexts.map((text) => `${percent(text.slice(0, 500))}=1`),
);

const plainBody = (text: string) => Buffer.from(text);
const bodyEncodings: fc.Arbitrary<(text: string) => Buffer> = fc.constantFrom<(text: string) => Buffer>(
  (text) => Buffer.from(text.slice(0, text.length / 2)),
  (text) => Buffer.from(`${text}}`),
  (text) => Buffer.from(`\ufeff${text}`),
  (text) => Buffer.from(text, 'utf16le'),
  (text) => Buffer.concat([Buffer.from(text), Buffer.from([0xff, 0xc0, 0xaf])]),
  (text) => Buffer.from(text.replace('{', '{"name":1,"name":2,')),
  (text) => Buffer.from(text.replace('{', '{"__proto__":{"x":1},')),
  (text) => Buffer.from(text.replaceAll('"', "'")),
  (text) => Buffer.from(text.replace(/:(?=[^:]*$)/, ':NaN,"x":')),
  (text) => Buffer.from(text + ' '.repeat(70_000)),
  () => Buffer.alloc(0),
  () => Buffer.alloc(200_000, '['),
  () => Buffer.from('['.repeat(8_000)),
  () => Buffer.from('{"a":'.repeat(2_500) + '1' + '}'.repeat(2_500)),
  () => Buffer.from('\u0000'),
  () => Buffer.from('null'),
  () => Buffer.from('1e999'),
);

const visible = fc.string({
  unit: fc.constantFrom(...Array.from('abcXYZ019 ,;=/"()<>@:\\[]?{}~!#$%&\'*+-.^_`|é\u00ff\t')),
  maxLength: 60,
});
const oddHeaders: fc.Arbitrary<[string, string]> = fc.oneof(
  fc.tuple(
    fc.constantFrom(
      'Authorization',
      'Content-Type',
      'Idempotency-Key',
      'X-Request-Id',
      'Accept',
      'X-Forwarded-For',
      'Cookie',
    ),
    visible,
  ),
  fc.constantFrom<[string, string]>(
    ['Authorization', 'Bearer'],
    ['Authorization', 'Basic a2V5Og=='],
    ['Content-Type', 'text/plain'],
    ['Content-Type', 'application/json; charset=utf-16'],
    ['Content-Type', 'multipart/form-data; boundary=x'],
    ['Content-Encoding', 'gzip'],
    ['Content-Encoding', 'br, gzip'],
    ['Idempotency-Key', ''],
    ['Idempotency-Key', 'again'],
    ['Idempotency-Key', 'x'.repeat(300)],
    ['X-Request-Id', 'x'.repeat(5_000)],
    ['Accept', 'text/csv'],
    ['Accept', 'text/csv;q=x, */*;q=1e999'],
    ['X-Forwarded-For', ',,, , 1.2.3.4, ::ffff:999'],
    ['X-HTTP-Method-Override', 'DELETE'],
    ['Expect', 'miracles'],
    ['Range', 'bytes=0-0'],
    ['If-None-Match', '*'],
    ['Connection', 'Upgrade'],
    ['Upgrade', 'websocket'],
    ['Host', 'other'],
    ['X-Long', 'x'.repeat(9_000)],
    ['X-Too-Long', 'x'.repeat(20_000)],
  ),
);
