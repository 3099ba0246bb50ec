import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { speak, type RawAnswer } from '../../../tests/helpers/raw-http.ts';
import { joinWorld } from '../../../tests/helpers/world.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';

// api and verify accept and refuse the same requests, with the same messages.

const world = await joinWorld();

const json = '{"key":"x"}';
const type = 'Content-Type: application/json';

test('a connection stays open after a body that was too large, and a half-closed one gets its answer', async () => {
  const large = post(VERIFY_PATH, ['Content-Length: 100000', type], 'x'.repeat(100_000));
  const small = post(VERIFY_PATH, [`Content-Length: ${json.length}`, type], json);
  for (const { url } of [world.api, world.verify]) {
    assert.equal((await speak(url, [large, small], { answers: 2 })).answers.map(codeOf), [41301, 200]);
    assert.equal((await speak(url, [small], { halfClose: true })).answers.map(codeOf), [200]);
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

function post(path: string, headers: string[], bytes: string | Buffer): Buffer {
  const head = [`POST ${path} HTTP/1.1`, 'Host: a', `Authorization: Bearer ${world.team.token}`, ...headers];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), Buffer.from(bytes)]);
}
