import { gzipSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { speak, type RawAnswer } from '../../../tests/helpers/raw-http.ts';
import { joinWorld, request } from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

// api and verify accept and refuse the same requests, with the same messages.

const world = await joinWorld();

const json = '{"key":"x"}';
const body = (bytes: string | Buffer, ...headers: string[]) => ({ bytes: Buffer.from(bytes), headers });
const type = 'Content-Type: application/json';
const cases: [string, { bytes: Buffer; headers: string[] }, number][] = [
  ['JSON', body(json, type), 200],
  ['JSON with a charset', body(json, 'Content-Type: Application/JSON ; charset=utf-8'), 200],
  ['JSON after a byte order mark', body(`\ufeff${json}`, type), 200],
  ['nothing', body(''), 40001],
  ['null', body('null', type), 40001],
  ['a list', body('[]', type), 40001],
  ['a text', body('"x"', type), 40001],
  ['white space', body(' ', type), 40002],
  ['broken JSON', body('{"key":', type), 40002],
  ['UTF-8 that is none', body(Buffer.from([...Buffer.from('{"key":"'), 0xff, ...Buffer.from('"}')]), type), 40002],
  ['a prototype', body('{"key":"x","__proto__":{"a":1}}', type), 40001],
  ['no content type', body(json), 41501],
  ['another content type', body(json, 'Content-Type: application/jsonl'), 41501],
  ['compressed', body(gzipSync(json), type, 'Content-Encoding: gzip'), 41502],
  ['not compressed', body(json, type, 'Content-Encoding: identity'), 200],
  ['too much', body(JSON.stringify({ key: 'x'.repeat(17_000) }), type), 41301],
  ['far too much', body(Buffer.alloc(3_000_000, ' '), type), 41301],
];

test('a body is taken or refused for the same reason by both, whether its length is said or not', async () => {
  for (const [name, { bytes, headers }, expected] of cases)
    for (const chunked of [false, true]) {
      // An empty body in chunks is a body of no type that we know.
      if (chunked && bytes.length === 0) continue;
      const length = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${bytes.length}`;
      for (const answer of await both(VERIFY_PATH, [length, ...headers], chunked ? inChunks(bytes) : bytes)) {
        assert.is(codeOf(answer), expected, `${name}: ${answer.text}`);
        if (expected === 41502) assert.is(answer.headers.get('accept-encoding'), 'identity');
        assert.not.match(answer.text, /"key"/);
      }
    }
});

test('a connection stays open after a body that was too large, and a half-closed one gets its answer', async () => {
  const large = post(VERIFY_PATH, ['Content-Length: 100000', type], 'x'.repeat(100_000));
  const small = post(VERIFY_PATH, [`Content-Length: ${json.length}`, type], json);
  for (const { url } of [world.api, world.verify]) {
    assert.equal((await speak(url, [large, small], { answers: 2 })).answers.map(codeOf), [41301, 200]);
    assert.equal((await speak(url, [small], { halfClose: true })).answers.map(codeOf), [200]);
  }
});

test('a field of the body or query that an operation does not have is refused by its JSON pointer; paths are case-sensitive', async () => {
  for (const { url } of [world.api, world.verify]) {
    const ask = async (query: string, body: object) =>
      (await request(url + VERIFY_PATH + query, 'post', { token: world.team.token, body })).body;
    const unknown = (path: string) => [{ path, message: 'is not a known field' }];
    const { error } = await ask('?dry/run=1', { key: 'x' });
    assert.equal([error.code, error.details], [40001, unknown('dry~1run')]);
    assert.equal((await ask('', { key: 'x', billing: { 'a/b~c': 1 } })).error.details, unknown('/billing/a~1b~0c'));
    assert.is((await ask('?', { key: 'x' })).status, 'INVALID');
    const other = await request(url + VERIFY_PATH.toUpperCase(), 'post', { token: world.team.token, body: {} });
    assert.is(other.body.error.code, 40401);
  }
});

test('what is not HTTP, or asks for a feature that the servers lack, gets the error envelope', async () => {
  const line = 'GET /healthz HTTP/1.1\r\n';
  for (const [text, expected] of [
    ['nonsense\r\n\r\n', 40010],
    [`${line}\r\n`, 40010],
    [`${line}Host: a\r\nno colon\r\n\r\n`, 40010],
    ['CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n', 40010],
    [`${line}Host: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 43101],
    ['GET http://[::1/healthz HTTP/1.1\r\nHost: a\r\n\r\n', 40010],
    ['GET http://a/healthz?x HTTP/1.1\r\nHost: a\r\n\r\n', 200],
    ['GET /healthz#x HTTP/1.1\r\nHost: a\r\n\r\n', 40010],
    ['GET /healthz HTTP/1.0\r\n\r\n', 200],
    [`${line}Host: a\r\nExpect: miracles\r\n\r\n`, 200],
    [`${line}Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`, 200],
  ] as const) {
    for (const { url } of [world.api, world.verify]) {
      const { answers } = await speak(url, [text]);
      assert.is(answers.length, 1, text);
      assert.is(codeOf(answers[0]!), expected, text);
    }
  }
});

// The code of an error, or else the status.
function codeOf({ status, text }: RawAnswer): number {
  return (JSON.parse(text) as { error?: { code: number } }).error?.code ?? status;
}

async function both(path: string, headers: string[], bytes: string | Buffer): Promise<RawAnswer[]> {
  const spoken = await Promise.all(
    [world.api, world.verify].map(({ url }) => speak(url, [post(path, headers, bytes)])),
  );
  return spoken.map(({ answers }) => answers[0]!);
}

function post(path: string, headers: string[], bytes: string | Buffer): Buffer {
  const head = [`POST ${path} HTTP/1.1`, 'Host: a', `Authorization: Bearer ${world.team.token}`, ...headers];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), Buffer.from(bytes)]);
}

function inChunks(bytes: Buffer): Buffer {
  const parts = [];
  for (let at = 0; at < bytes.length; at += 10_000) {
    const part = bytes.subarray(at, at + 10_000);
    parts.push(Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n'));
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')]);
}
