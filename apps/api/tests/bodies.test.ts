import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { speak, type RawAnswer } from '../../../tests/helpers/raw-http.ts';
import { makeWorld } from '../../../tests/helpers/world.ts';

// Bodies that come in an unusual way. What api and verify have in common is in apps/verify/tests/same-answers.test.ts.

const world = await makeWorld();

const json = JSON.stringify({ name: 'w' });
const typed = 'Content-Type: application/json';
const length = (text: string) => `Content-Length: ${Buffer.byteLength(text)}`;

test('a stranger is refused before the body has arrived', async () => {
  for (const token of ['nobody', null]) {
    const { answers } = await speak(world.api.url, [post([typed, 'Content-Length: 1000'], '{', token)]);
    assert.equal(answers.map(codeOf), [token ? 40102 : 40101]);
  }
});

test('a token without the permission is refused before the body has arrived', async () => {
  const token = await world.newToken(world.team.id, ['key:read']);
  const { answers } = await speak(world.api.url, [post([typed, 'Content-Length: 1000'], '{', token)]);
  assert.equal(answers.map(codeOf), [40301]);
});

test('a body that turns out too large is refused, and its connection serves the next request', async () => {
  const part = `2710\r\n${'x'.repeat(10_000)}\r\n`;
  const large = post([typed, 'Transfer-Encoding: chunked'], part);
  const { answers } = await speak(
    world.api.url,
    [large, ...Array.from({ length: 20 }, () => part), '0\r\n\r\n', post([typed, length(json)], json)],
    { answers: 2, pauseMs: 5 },
  );
  assert.equal(answers.map(codeOf), [41301, 201]);
});

test('a body of exactly the limit is read, and one byte more is not', async () => {
  const padded = (bytes: number) => json.padEnd(bytes, ' ');
  for (const [body, expected] of [
    [padded(65_536), 201],
    [padded(65_537), 41301],
  ] as const) {
    const chunk = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    for (const request of [post([typed, length(body)], body), post([typed, 'Transfer-Encoding: chunked'], chunk)]) {
      const { answers } = await speak(world.api.url, [request]);
      assert.equal(answers.map(codeOf), [expected]);
    }
  }
});

test('the content type may have parameters of any form, and "identity" any spelling', async () => {
  for (const headers of [
    ['Content-Type: application/json; charset'],
    ['Content-Type: APPLICATION/json;=;'],
    [typed, 'Content-Encoding: IDENTITY'],
    [typed, 'Content-Encoding:'],
  ]) {
    const { answers } = await speak(world.api.url, [post([...headers, length(json)], json)]);
    assert.equal(answers.map(codeOf), [201], headers.join());
  }
});

test('a body that is cut short stores nothing', async () => {
  const cut = JSON.stringify({ name: 'cut short' });
  await speak(world.api.url, [post([typed, `Content-Length: ${cut.length + 1}`], cut)], { halfClose: true });
  const { body } = await world.call('get', '/api/v1/workspace?limit=200');
  assert.not.ok(body.workspaces.some((workspace: { name: string }) => workspace.name === 'cut short'));
});

// The code of an error, else the status.
function codeOf({ status, text }: RawAnswer): number {
  return (JSON.parse(text) as { error?: { code: number } }).error?.code ?? status;
}

function post(headers: string[], body: string, token: string | null = world.team.token): Buffer {
  const authorization = token === null ? [] : [`Authorization: Bearer ${token}`];
  const head = ['POST /api/v1/workspace HTTP/1.1', 'Host: a', ...authorization, ...headers];
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${body}`);
}
