import * as fc from 'fast-check';

/** What is sent over one connection, and how many answers the server must give. */
export type WireCase = {
  name: string;
  parts: (string | Buffer)[];
  pauseMs: number;
  halfClose: boolean;
  /** How many answers must come; 0 if closing the connection is enough. */
  answers: number;
};

/** Requests that no HTTP client would send. An unfinished one ends when we close our half of the connection. */
export function wireCases(token: string): fc.Arbitrary<WireCase> {
  const auth = `Authorization: Bearer ${token}\r\n`;
  const all = [...requestLines(), ...targets(auth), ...headers(auth), ...bodies(auth)];
  const whole = fc.constantFrom(...all).chain(([name, text, answers]) =>
    fc
      .record({ pieces: fc.integer({ min: 1, max: 4 }), pauseMs: fc.constantFrom(0, 0, 15) })
      .map(({ pieces, pauseMs }) => {
        const bytes = typeof text === 'string' ? Buffer.from(text, 'utf8') : text;
        return { name, parts: cut(bytes, pieces), pauseMs, halfClose: true, answers };
      }),
  );
  return fc.oneof({ arbitrary: whole, weight: 5 }, pipelined());
}

/** Several requests sent at once; the answers must come in the same order. */
function pipelined(): fc.Arbitrary<WireCase> {
  const paths = fc.constantFrom('/healthz', '/nowhere', '/api/v1/workspace', '/%');
  return fc
    .record({ targets: fc.array(paths, { minLength: 2, maxLength: 12 }), halfClose: fc.boolean() })
    .map(({ targets, halfClose }) => {
      const requests = targets.map((target, i) => get(target, `${HOST}X-Request-Id: p${i}\r\n`));
      return { name: 'pipelined', parts: [requests.join('')], pauseMs: 0, halfClose, answers: targets.length };
    });
}

type Case = [name: string, text: string | Buffer, answers: number];

const HOST = 'Host: f\r\n';
const JSON_TYPE = 'Content-Type: application/json\r\n';

function get(target: string, headers = HOST): string {
  return `GET ${target} HTTP/1.1\r\n${headers}\r\n`;
}

// Request lines, and bytes that are none.
function requestLines(): Case[] {
  return [
    ['HTTP/1.0', 'GET /healthz HTTP/1.0\r\n\r\n', 1],
    ['HTTP/0.9', 'GET /healthz\r\n', 1],
    ['HTTP/9.9', 'GET /healthz HTTP/9.9\r\nHost: f\r\n\r\n', 1],
    ['HTTP/2 preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 1],
    ['TLS', Buffer.from('16030100c8010000c40303', 'hex'), 0],
    ['binary', Buffer.from(Array.from({ length: 400 }, (_, i) => (i * 37) % 256)), 0],
    ['an unknown method', 'BREW /pot HTTP/1.1\r\nHost: f\r\n\r\n', 1],
    ['a lower case method', 'get /healthz HTTP/1.1\r\nHost: f\r\n\r\n', 1],
    ['CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: f\r\n\r\n', 1],
    ['OPTIONS *', 'OPTIONS * HTTP/1.1\r\nHost: f\r\n\r\n', 1],
    ['bare line feeds', 'GET /healthz HTTP/1.1\nHost: f\n\n', 1],
    ['a bare carriage return', 'GET /healthz HTTP/1.1\rHost: f\r\r', 0],
    ['empty lines first', `\r\n\r\n${get('/healthz')}`, 1],
    ['nothing', '', 0],
    ['half a line', 'GET /heal', 0],
    ['half a head', 'GET /healthz HTTP/1.1\r\nHost:', 0],
  ];
}

// Targets: paths, queries and fragments.
function targets(auth: string): Case[] {
  return [
    ['an absolute target', get('http://f/healthz'), 1],
    ['an absolute target of another host', get('http://[::1/healthz'), 1],
    ['broken percent', get('/api/v1/workspace/%'), 1],
    ['broken percent in a query', get(`/api/v1/workspace?limit=1&%E0%A4%A=%`, HOST + auth), 1],
    ['percent beyond UTF-8', get('/api/v1/workspace/%c0%af%ff', HOST + auth), 1],
    ['NUL by percent', get('/api/v1/link-token/%00', HOST + auth), 1],
    ['NUL in the target', get('/health\u0000z'), 1],
    ['bytes above 127 in the target', Buffer.from(get('/\u00ff\u00fe'), 'latin1'), 1],
    ['a fragment', get('/healthz#x'), 1],
    ['a fragment after a query', get('/api/v1/workspace?a#b', HOST + auth), 1],
    ['a long path', get(`/${'x'.repeat(12_000)}`), 1],
    ['a longer path', get(`/${'x'.repeat(60_000)}`), 1],
    ['a long query', get(`/api/v1/workspace?cursor=${'x'.repeat(14_000)}`, HOST + auth), 1],
    ['many query parameters', get(`/api/v1/workspace?${'a&'.repeat(5_000)}`, HOST + auth), 1],
  ];
}

// Headers: missing, repeated, odd and too many.
function headers(auth: string): Case[] {
  return [
    ['no host', get('/healthz', ''), 1],
    ['two hosts', get('/healthz', 'Host: a\r\nHost: b\r\n'), 1],
    ['an upgrade', get('/healthz', 'Host: f\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n'), 1],
    ['an unknown expectation', get('/healthz', 'Host: f\r\nExpect: x\r\n'), 1],
    ['many headers', get('/healthz', `Host: f\r\n${'X: y\r\n'.repeat(2_500)}`), 1],
    ['two tokens', get('/api/v1/workspace', `${HOST}${auth}Authorization: Bearer other\r\n`), 1],
    ['a header without a colon', get('/healthz', 'Host: f\r\nnonsense\r\n'), 1],
    ['a header without a name', get('/healthz', 'Host: f\r\n: x\r\n'), 1],
    ['a folded header', get('/healthz', 'Host: f\r\nX: a\r\n b\r\n'), 1],
    ['a space before a colon', get('/healthz', 'Host : f\r\n'), 1],
    ['NUL in a header', get('/healthz', 'Host: f\r\nX: a\u0000b\r\n'), 1],
  ];
}

// Bodies, and the headers that announce their length.
function bodies(auth: string): Case[] {
  const verify = (body: string, headers: string) =>
    `POST /api/v1/api-key/verify HTTP/1.1\r\n${HOST}${auth}${headers}\r\n${body}`;
  return [
    ['a good one', verify('{"key":"x"}', `${JSON_TYPE}Content-Length: 11\r\n`), 1],
    ['100-continue', verify('{"key":"x"}', `${JSON_TYPE}Expect: 100-continue\r\nContent-Length: 11\r\n`), 1],
    ['two lengths', verify('{}', `${JSON_TYPE}Content-Length: 2\r\nContent-Length: 3\r\n`), 1],
    ['a length and chunks', verify('0\r\n\r\n', `${JSON_TYPE}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n`), 1],
    ['a negative length', verify('', `${JSON_TYPE}Content-Length: -1\r\n`), 1],
    ['an endless length', verify('', `${JSON_TYPE}Content-Length: 99999999999999999999\r\n`), 1],
    ['a length of words', verify('', `${JSON_TYPE}Content-Length: two\r\n`), 1],
    ['an unknown transfer coding', verify('', `${JSON_TYPE}Transfer-Encoding: gzip\r\n`), 1],
    ['chunks that are none', verify('zz\r\nhello\r\n', `${JSON_TYPE}Transfer-Encoding: chunked\r\n`), 1],
    ['a chunk of a terabyte', verify('fffffffffff\r\n{}', `${JSON_TYPE}Transfer-Encoding: chunked\r\n`), 0],
    [
      'chunk extensions',
      verify(`b;${'x'.repeat(20_000)}\r\n{"key":"x"}\r\n0\r\n\r\n`, `${JSON_TYPE}Transfer-Encoding: chunked\r\n`),
      1,
    ],
    ['trailers', verify('b\r\n{"key":"x"}\r\n0\r\nX: y\r\n\r\n', `${JSON_TYPE}Transfer-Encoding: chunked\r\n`), 1],
    ['two types', verify('{"key":"x"}', `${JSON_TYPE}Content-Type: text/plain\r\nContent-Length: 11\r\n`), 1],
    ['half a body', verify('{"ke', `${JSON_TYPE}Content-Length: 11\r\n`), 0],
    ['half a chunk', verify('b\r\n{"ke', `${JSON_TYPE}Transfer-Encoding: chunked\r\n`), 0],
    ['more than the body', verify('{"key":"x"}garbage', `${JSON_TYPE}Content-Length: 11\r\n`), 1],
  ];
}

function cut(bytes: Buffer, pieces: number): Buffer[] {
  const size = Math.max(1, Math.ceil(bytes.length / pieces));
  return Array.from({ length: pieces }, (_, i) => bytes.subarray(i * size, (i + 1) * size)).filter(
    (part) => part.length > 0,
  );
}
