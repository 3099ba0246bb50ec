import type { RequestListener, Server, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { makeHttpServer } from './http-server.ts';
import { listen } from './listen.ts';
import { answerTo } from '../../tests/helpers/raw-http.ts';

const CONNECTIONS = 300;
const MOST_IN_A_TURN = 10;
const stops: (() => Promise<void>)[] = [];
test.after(async () => void (await Promise.all(stops.map((stop) => stop()))));

test('hundreds of connections that are late at the same moment are refused some at a time, each with 408', async () => {
  const { server, port } = await serve((_request, response) => response.end(), { headersMs: 300 });
  const accepted: Socket[] = [];
  server.on('connection', (socket: Socket) => accepted.push(socket));
  const clients = Array.from({ length: CONNECTIONS }, () => connect(port, '127.0.0.1'));
  const answers = clients.map((client) => answerTo(client, 'GET / HTTP/1.1\r\nX-Slow: '));

  let [refused, most] = [0, 0];
  const turn = () => {
    const now = accepted.filter((socket) => socket.writableEnded).length;
    most = Math.max(most, now - refused);
    refused = now;
    if (refused < CONNECTIONS) setImmediate(turn);
  };
  turn();
  for (const text of await Promise.all(answers)) assert.match(text, /^HTTP\/1\.1 408 .*"code":40801/s);
  assert.is(refused, CONNECTIONS);
  assert.ok(most <= MOST_IN_A_TURN, `${most} in one turn of the event loop`);
});

test('a head that is completed after its time makes no request beside the refusal', async () => {
  let requests = 0;
  const count = (_request: unknown, response: ServerResponse) => {
    requests += 1;
    response.end();
  };
  const { server, port } = await serve(count, { headersMs: 300 });
  const client = connect(port, '127.0.0.1');
  // It is on its way before the server refuses.
  server.prependListener('clientError', () => client.write('a\r\nHost: a\r\n\r\n'));
  assert.match(await answerTo(client, 'GET / HTTP/1.1\r\nX-Slow: '), /^HTTP\/1\.1 408 /);
  assert.is(requests, 0);
});

test('a request with several Host lines, or with none, is 400, however they are written', async () => {
  let requests = 0;
  const { port } = await serve((_request, response) => {
    requests += 1;
    response.end();
  });
  for (const [version, hosts, status] of [
    ['1.1', 'Host: a\r\nHost: b\r\n', 400],
    ['1.1', 'host: a\r\nX: y\r\nHOST: a\r\n', 400],
    ['1.0', 'Host: a\r\nHost: a\r\n', 400],
    ['1.1', '', 400],
    ['1.1', 'Host: a\r\n', 200],
    ['1.0', '', 200],
  ] as const) {
    const asked = `GET / HTTP/${version}\r\n${hosts}Connection: close\r\n\r\n`;
    assert.match(await answerTo(connect(port, '127.0.0.1'), asked), `HTTP/1.1 ${status} `, asked);
  }
  assert.is(requests, 2);
});

async function serve(handle: RequestListener, heads = {}): Promise<{ server: Server; port: number }> {
  const server = makeHttpServer(handle);
  const { port, stop } = await listen(server, { host: '127.0.0.1', port: 0, ...heads });
  stops.push(stop);
  return { server, port };
}
