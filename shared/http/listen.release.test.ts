import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { eventually } from '../../tests/helpers/eventually.ts';
import { listen } from './listen.ts';
import { answerTo } from '../../tests/helpers/raw-http.ts';

test('a client that does not read its answer is cut off when nothing moves, a slow reader is not', async () => {
  const answer = Buffer.alloc(50_000_000);
  const server = createServer((_request, response) => void response.end(answer));
  const { port, stop } = await listen(server, { host: '127.0.0.1', port: 0, stalledMs: 5_000 });
  const ask = () => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {}).write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    return socket;
  };
  const idle = ask().pause();
  // A machine that stalls for so long lets nothing move.
  await eventually('a slow reader gets all of it', async () => {
    let received = 0;
    const slow = ask();
    slow.on('data', (bytes: Buffer) => {
      received += bytes.length;
      slow.pause();
      setTimeout(() => slow.resume(), 3);
    });
    await once(slow, 'close');
    return received > answer.length;
  });
  await eventually('the other is cut off', () => connectionsOf(server).then((count) => count === 0));
  idle.destroy();
  await stop();
});

test('while it stops, an answer that is sent at once closes its connection, and cuts off no other request', async () => {
  const slow = Promise.withResolvers<ServerResponse>();
  const server = createServer((request, response) => {
    if (request.url === '/slow') slow.resolve(response);
    else response.end('at once');
  });
  const { port, stop } = await listen(server, { host: '127.0.0.1', port: 0 });
  const open = connect(port, '127.0.0.1');
  const [accepted] = (await once(server, 'connection')) as [Socket];
  // Without a part of a request it would be idle, and closed.
  open.write('GET / HTTP/1.1\r\n');
  await eventually('a part of its request is there', async () => accepted.bytesRead > 0);
  const last = answerTo(connect(port, '127.0.0.1'), 'GET /slow HTTP/1.1\r\nHost: x\r\n\r\n');
  const response = await slow.promise;
  const stopped = stop();
  assert.match(await answerTo(open, 'Host: x\r\n\r\n'), /^HTTP\/1\.1 200 OK\r\n.*Connection: close\r\n.*at once$/s);
  response.end('at last');
  assert.match(await last, /^HTTP\/1\.1 200 OK\r\n.*at last/s);
  await stopped;
});

function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}
