import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { listen } from './listen.ts';

const test = suite('listen');

test('two thousand connections that arrive before the first is accepted are all answered at once', async () => {
  const { port, stop } = await listen(
    createServer((_request, response) => response.end()),
    { host: '127.0.0.1', port: 0 },
  );
  const began = performance.now();
  // One process is both ends: it opens all connections before it accepts the first.
  const sockets = Array.from({ length: 2_000 }, () => connect(port, '127.0.0.1'));
  await Promise.all(
    sockets.map(async (socket) => {
      socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      await once(socket, 'data');
    }),
  );
  const took = performance.now() - began;
  sockets.forEach((socket) => socket.destroy());
  await stop();
  assert.ok(took < 1_000, `${Math.round(took)} ms: the kernel retries a dropped connection after a second`);
});

test.run();
