import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { speak, type RawAnswer } from '../../../tests/helpers/raw-http.ts';
import { VERIFY_PATH } from '../../../shared/verification/operation.ts';
import { joinWorld } from '../../../tests/helpers/world.ts';

// What comes in an unusual way. Where api and verify serve the same operation, they answer alike.

const world = await joinWorld();

const json = JSON.stringify({ name: 'w' });
const typed = 'Content-Type: application/json';
const length = (text: string) => `Content-Length: ${Buffer.byteLength(text)}`;

test('who may not is refused before the body has arrived; one of exactly the limit is read, of any content type that means JSON', async () => {
  const lacking = await world.newToken(world.team.id, ['key:read']);
  const [largest, larger] = [65_536, 65_537].map((bytes) => json.padEnd(bytes, ' ')) as [string, string];
  const chunked = (body: string) =>
    post([typed, 'Transfer-Encoding: chunked'], `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`);
  for (const [code, request] of [
    ...(['nobody', null, lacking] as const).map((token, i) => {
      return [[40102, 40101, 40301][i], post([typed, 'Content-Length: 1000'], '{', { token })] as const;
    }),
    [201, post([typed, length(largest)], largest)],
    [201, chunked(largest)],
    [41301, post([typed, length(larger)], larger)],
    [41301, chunked(larger)],
    ...[
      ['Content-Type: application/json; charset'],
      ['Content-Type: APPLICATION/json;=;'],
      [typed, 'Content-Encoding: IDENTITY'],
      [typed, 'Content-Encoding:'],
    ].map((headers) => [201, post([...headers, length(json)], json)] as const),
  ] as const)
    assert.equal((await speak(world.api.url, [request])).answers.map(codeOf), [code], String(request).slice(0, 200));
});

test('a connection stays open after a body that was too large, and a half-closed one gets its answer', async () => {
  const path = VERIFY_PATH;
  const small = post([typed, 'Content-Length: 11'], '{"key":"x"}', { path });
  const part = `2710\r\n${'x'.repeat(10_000)}\r\n`;
  const chunked = [post([typed, 'Transfer-Encoding: chunked'], part, { path }), ...Array(20).fill(part), '0\r\n\r\n'];
  const sized = [post([typed, 'Content-Length: 100000'], 'x'.repeat(100_000), { path })];
  for (const { url } of [world.api, world.verify]) {
    for (const large of [chunked, sized]) {
      const { answers } = await speak(url, [...large, small], { answers: 2, pauseMs: 5 });
      assert.equal(answers.map(codeOf), [41301, 200]);
    }
    assert.equal((await speak(url, [small], { halfClose: true })).answers.map(codeOf), [200]);
  }
});

test('a body that is cut short stores nothing', async () => {
  const cut = JSON.stringify({ name: 'cut short' });
  await speak(world.api.url, [post([typed, `Content-Length: ${cut.length + 1}`], cut)], { halfClose: true });
  const { body } = await world.call('get', '/api/v1/workspace?limit=200');
  assert.not.ok(body.workspaces.some((workspace: { name: string }) => workspace.name === 'cut short'));
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

// The code of an error, else the status.
function codeOf({ status, text }: RawAnswer): number {
  return (JSON.parse(text) as { error?: { code: number } }).error?.code ?? status;
}

type Sent = { token?: string | null; path?: string };

function post(
  headers: string[],
  body: string,
  { token = world.team.token, path = '/api/v1/workspace' }: Sent = {},
): Buffer {
  const authorization = token === null ? [] : [`Authorization: Bearer ${token}`];
  const head = [`POST ${path} HTTP/1.1`, 'Host: a', ...authorization, ...headers];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}
